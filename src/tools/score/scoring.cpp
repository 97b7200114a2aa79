#include "tools/score/scoring.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "base/unicode_form.h"
#include "record/evaluation_record.h"
#include "tools/score/answer_threshold.h"
#include "train/precision.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamed = 10;
constexpr int kPrintedClasses = 3;
constexpr double kSecondsBetweenSaves = 2, kMaxSaving = 0.02;  // the latter as a share of the time

ScoreColumns columns_of(const ScoreConfig& config, const ScoreJob& job,
                        const TrueLabels& true_labels) {
  const std::vector<std::string>& labels = job.predictor->labels();
  const auto most = static_cast<int>(labels.size());
  const bool prints = config.output_path.empty();
  const int usual = prints ? (config.all_classes ? most : kPrintedClasses) : 1;
  return {labels, std::min(most, config.top_k > 0 ? config.top_k : usual), config.all_classes,
          true_labels.any(), config.min_confidence || config.answer_at};
}

std::vector<float> row_of(const at::Tensor& probabilities, std::size_t at) {
  const auto num_classes = static_cast<std::size_t>(probabilities.size(1));
  const auto* first = probabilities.const_data_ptr<float>() + at * num_classes;
  return {first, first + num_classes};
}

}  // namespace

Scoring::Scoring(const ScoreConfig& config, ScoreJob& job, Log& log)
    : config_(config),
      job_(job),
      log_(log),
      total_(job.rows.count()),
      true_labels_(job.set, job.predictor->labels()),
      threshold_(answer_threshold(config, job.predictor->calibration())),
      columns_(columns_of(config, job, true_labels_)),
      encoder_(job.format->encoder(columns_)),
      notable_(columns_.guesses),
      faults_(config.prediction.max_bad_images, log),
      progress_(total_, log) {
  next_save_ = kSecondsBetweenSaves;
  warn_of_unknown_labels();
  log_answer_threshold(config_, job_.predictor->calibration(), log_);
  if (!config_.scored_dataset.empty())
    scored_dataset_.emplace(config_.scored_dataset, columns_.labels, columns_.true_labels);
  if (job_.file) begin_file(*job_.file);
}

void Scoring::pass_over(const Dataset& set, std::uint32_t first, std::uint32_t end) {
  for (std::uint32_t i = first; i < end; ++i) names_.add(set, true_labels_, i);
}

void Scoring::add(const Dataset& set, const PredictedBatch& predicted) {
  const Ranked ranked = predicted.images.count > 0 ? ranked_classes(predicted.logits) : Ranked();
  std::string rows;
  for (BatchImage& image : predicted.each()) {
    const std::uint32_t i = image.index;
    Score row{.path = std::string(set.samples.file_name(i)),
              .true_label = true_labels_.of(i),
              .best = {},
              .probabilities = {},
              .fault = std::move(image.fault)};
    if (image.row) fill(row, ranked, *image.row);
    note(row, true_labels_.is_known(i));
    note_seen(image.hash);
    names_.add(set, true_labels_, i);
    if (job_.file) rows += encoder_->row(row);
    if (scored_dataset_ && !row.best.empty())
      scored_dataset_->add(row, job_.list ? so_far_.num_images - 1 : set.samples[i].id,
                           row_of(ranked.plain, *image.row));
  }
  if (job_.file) job_.file->write(rows);
  if (total_ > 0 || !config_.prediction.max_bad_images.is_share) faults_.check(total_);
  save_progress();
  progress_.show(so_far_.num_images, num_before_);
}

void Scoring::finish(const TransformSpec& pixels) {
  const bool is_empty_part = so_far_.num_images == 0 && job_.rows.num_images > 0;
  if (so_far_.num_images == 0 && !is_empty_part)
    throw Error(ErrorCode::kInvalidDataset,
                job_.list
                    ? "--files-from '" + config_.files_from + "' is empty: give one path per line."
                    : "Images '" + config_.data_path + "': its list is empty. Add images to it.");
  faults_.check(so_far_.num_images);
  if (!config_.part) faults_.require_any_good(so_far_.num_images);
  if (job_.file) {
    job_.file->write(encoder_->end());
    job_.file->commit();
    if (config_.part) write_file_durably(part_note_path(config_.output_path), part_note_);
  }
  if (scored_dataset_) scored_dataset_->commit();
  log_result();
  if (job_.explanations) explain(pixels);
}

// Rows are saved between batches, so a resumed job has the same batches as an uninterrupted one.
void Scoring::begin_file(ScoreFile& file) {
  if (config_.part) {
    std::error_code failure;
    fs::remove(part_note_path(config_.output_path), failure);
    const auto names =
        names_of_rows(0, job_.rows.num_images, config_, job_.set, true_labels_).value_or(0);
    part_note_ = part_note(config_, job_.rows, job_.predictor->print(), names);
  }
  so_far_.settings =
      score_settings(config_, *job_.predictor, job_.device, job_.precision.precision, columns_);
  const ScoreResume resume{
      so_far_.settings, why_in_one_go(config_, *job_.format, job_.list ? &*job_.list : nullptr),
      [this](std::int64_t count) {
        return names_of_rows(job_.rows.begin, count, config_, job_.set, true_labels_);
      }};
  is_saved_ = !config_.output_path.empty() && resume.in_one_go.empty();
  std::optional<ScoreProgress> found;
  if (config_.resume != ResumeChoice::kNever) found = find_rows(file, resume, log_);
  if (!found) {
    file.restart();
    // One part begins a file that others continue, if its rows are lines.
    if (!config_.part || config_.part->number == 1 || !job_.format->is_lines)
      file.write(encoder_->begin());
    return;
  }
  so_far_ = *std::move(found);
  num_before_ = so_far_.num_images;
  faults_.resume(so_far_.num_bad, so_far_.num_damaged, so_far_.first_bad);
  file.resume(so_far_);
}

void Scoring::warn_of_unknown_labels() const {
  const UnknownLabels unknown = true_labels_.unknown();
  if (unknown.num_images == 0) return;
  log_.warning(
      formatted("%lld images have a label that the model does not know: ", unknown.num_images) +
      quoted_among(unknown.names, job_.predictor->labels(), kNamed) +
      ". It gets all of them wrong.");
}

Scoring::Ranked Scoring::ranked_classes(const at::Tensor& logits) const {
  const double temperature = config_.raw ? 1 : job_.predictor->calibration().temperature;
  Ranked ranked;
  ranked.probabilities = (logits / temperature).softmax(1);
  if (scored_dataset_) ranked.plain = logits.softmax(1);
  std::tie(ranked.confidences, ranked.ids) = at::topk(ranked.probabilities, columns_.top_k, 1);
  return ranked;
}

// `at` is the row's place in the batch.
void Scoring::fill(Score& row, const Ranked& ranked, std::size_t at) const {
  const auto top_k = static_cast<std::size_t>(columns_.top_k);
  const auto* confidence = ranked.confidences.const_data_ptr<float>() + at * top_k;
  if (!std::isfinite(confidence[0])) {
    row.fault = kNoNumberFault;
    return;
  }
  const auto* id = ranked.ids.const_data_ptr<std::int64_t>() + at * top_k;
  for (std::size_t place = 0; place < top_k; ++place)
    row.best.push_back({static_cast<int>(id[place]), confidence[place]});
  row.is_unsure = confidence[0] < threshold_;
  if (columns_.all_classes) row.probabilities = row_of(ranked.probabilities, at);
}

// `may_be_right` is whether the model knows the true label.
void Scoring::note(const Score& row, bool may_be_right) {
  ++so_far_.num_images;
  const bool is_bad = row.best.empty();
  const bool is_judged = !is_bad && may_be_right;
  const bool is_right =
      is_judged && columns_.labels[static_cast<std::size_t>(row.best[0].id)] == row.true_label;
  so_far_.num_labeled += is_judged;
  so_far_.num_right += is_right;
  if (job_.explanations)
    notable_.see(static_cast<std::size_t>(so_far_.num_images - 1), row, is_judged && !is_right);
  so_far_.num_unsure += row.is_unsure;
  if (!row.fault.empty()) faults_.note(row.path, row.fault, is_bad);
}

void Scoring::note_seen(std::uint64_t hash) {
  const std::optional<SeenImages>& seen = job_.predictor->seen_images();
  if (!seen || hash == 0) return;
  so_far_.num_seen_in_training += seen->was_trained_on(hash);
  so_far_.num_seen_in_validation += seen->was_chosen_on(hash);
}

// Saves the rows and the progress, so that another job can continue if this one is killed. Saves
// less often on slow disks.
void Scoring::save_progress() {
  const double now = progress_.seconds();
  if (!is_saved_ || now < next_save_) return;
  so_far_.names = names_.value();
  so_far_.num_bad = faults_.num_bad();
  so_far_.num_damaged = faults_.num_damaged();
  so_far_.first_bad = printable(faults_.first_bad());
  job_.file->save(so_far_);
  const double took = progress_.seconds() - now;
  next_save_ = now + std::max(kSecondsBetweenSaves, took / kMaxSaving);
}

void Scoring::log_result() const {
  const double seconds = progress_.seconds();
  const std::int64_t num_now = so_far_.num_images - num_before_;
  log_.info("Scored " + grouped(so_far_.num_images) + " images" +
            (num_before_ == 0 ? "" : ", " + grouped(num_now) + " of them in this run,") +
            formatted(" in %s (%.1f images/s)", duration_text(seconds).c_str(),
                      static_cast<double>(num_now) / seconds) +
            (config_.output_path.empty() ? "." : ": '" + config_.output_path + "'."));
  if (faults_.num_bad() + faults_.num_damaged() > 0)
    log_.info(formatted("bad images: %lld; damaged but used: %lld", faults_.num_bad(),
                        faults_.num_damaged()));
  if (columns_.guesses)
    log_.info(formatted("unsure:    %s of them below the confidence threshold",
                        grouped(so_far_.num_unsure).c_str()));
  if (so_far_.num_labeled > 0)
    log_.info(formatted(
        "top-1 accuracy: %.2f %% of %s images with a label that the model knows",
        100 * static_cast<double>(so_far_.num_right) / static_cast<double>(so_far_.num_labeled),
        grouped(so_far_.num_labeled).c_str()));
  for (const std::string& text :
       seen_texts({so_far_.num_seen_in_training, so_far_.num_seen_in_validation}))
    log_.warning(text);
}

void Scoring::explain(const TransformSpec& pixels) {
  Dataset named;  // since the parts of a list are no longer in memory
  named.root = config_.data_path;
  std::vector<ExplainedAnswer> answers;
  for (const auto& [image, path, best] : notable_.all()) {
    if (job_.list) named.samples.push_back({.file_name = path, .size = {}});
    answers.push_back({job_.list ? answers.size() : image, best.id, best.confidence});
  }
  const Explained explained = job_.explanations->add(*job_.predictor, torch_device(job_.device),
                                                     pixels, job_.list ? named : job_.set, answers);
  for (const std::string& note : explained.notes) log_.warning(note);
  job_.explanations->commit();
  log_.info(formatted("heat maps of %zu images: ", answers.size()) + "'" + config_.explain + "'");
}

}  // namespace kiln
