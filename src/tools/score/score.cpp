// run() at the end opens the model, the images and the output. Scoring: what becomes of the
// answers, batch by batch.
#include "tools/score/score.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/names.h"
#include "base/platform/installation.h"
#include "base/system.h"
#include "base/text.h"
#include "base/url.h"
#include "data/dataset/dataset.h"
#include "data/dataset/image_source.h"
#include "predict/job.h"
#include "predict/pictures.h"
#include "record/evaluation.h"
#include "record/run_summary.h"
#include "record/training_record.h"
#include "report/scores/score_file.h"
#include "run/inputs/image_sizes.h"
#include "tools/commands.h"
#include "tools/score/scoring_progress.h"
#include "tools/score/shown_scores.h"
#include "tools/score/sorted_folders.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxOfList = 4096;  // images of a list that are processed together

// The rows of this job. `set` is that of --data-path, unless there is --files-from. Throws Error
// kUserError if there is --part and the list cannot be read.
ScoreRows rows_of_job(const ScoreConfig& config, const Dataset& set) {
  auto num_images = static_cast<std::int64_t>(set.samples.size());
  if (config.files_from.empty()) {
    if (!config.part) return {.begin = 0, .end = num_images, .num_images = num_images};
    return rows_of_part(*config.part, num_images, config.prediction.batch_size,
                        std::max<std::int64_t>(1, num_images));
  }
  if (!config.part) return {};
  FileList list(config.files_from, config.data_path);
  if (!list.can_be_read_again())
    throw Error(ErrorCode::kUserError,
                "--part needs to know the number of images, but the list of --files-from is not a "
                "file: write it to one.");
  for (Dataset some; list.next(kMaxOfList, some);) num_images += some.samples.size();
  return rows_of_part(*config.part, num_images, config.prediction.batch_size, kMaxOfList);
}

// Creates the folder of a part in Parquet, whose path is `file`. Throws Error kFailedToWriteOutputs
// if it has parts of another division.
void prepare_folder_of_parts(const fs::path& file, const JobPart& part) {
  const fs::path folder = file.parent_path();
  std::error_code failure;
  fs::create_directory(folder, failure);  // whoever opens the file says why there is none
  const std::string own = formatted("-of-%d.", part.count);
  for (const std::string& name : names_in(folder, failure)) {
    if (name.starts_with("part-") && name.find(own) == name.npos)
      throw Error(ErrorCode::kFailedToWriteOutputs,
                  "--output-path " + quoted_path(folder) + " has a part of another division: " +
                      quoted_path(name) + ". Empty the folder or choose another.");
  }
}

// A JSON object of two lines, of which the first is that of all parts of one job. `model` is its
// fingerprint, `names` a hash of the names of all images; one of `settings` is in the note.
std::string part_note(const ScoreConfig& config, const ScoreRows& rows, const std::string& model,
                      const ScoreSettings& settings, std::uint64_t names) {
  std::string values;
  for (const auto& [name, value] : settings.rows)
    values += name + std::string(1, '\0') + value + std::string(1, '\0');
  return "{\"all_parts\": {\"model\": \"" + model + "\", \"settings\": \"" +
         hex_digits(content_hash(values)) + "\", \"names\": \"" + hex_digits(names) +
         formatted("\", \"images\": %lld, \"batch_size\": %d, \"parts\": %d},\n",
                   static_cast<long long>(rows.num_images), config.prediction.batch_size,
                   config.part->count) +
         formatted(" \"part\": %d, \"first_row\": %lld, \"rows\": %lld}\n", config.part->number,
                   static_cast<long long>(rows.begin), static_cast<long long>(rows.count()));
}

// Adds an image to a hash over the names and true labels of images, in order.
void add_name(const Dataset& set, const TrueLabels& labels, std::size_t image, ContentHash& names) {
  constexpr std::string_view kEnd("\0", 1);  // occurs in no path
  names.add(set.samples.file_name(image));
  names.add(kEnd);
  names.add(labels.of(image));
  names.add(kEnd);
}

// The hash of add_name() for `count` images of --files-from, or otherwise of `set`, from image
// `first` on; empty if there are fewer.
std::optional<std::uint64_t> names_of_rows(std::int64_t first, std::int64_t count,
                                           const ScoreConfig& config, const Dataset& set,
                                           const TrueLabels& labels) {
  ContentHash names(0);
  auto before = static_cast<std::size_t>(first), left = static_cast<std::size_t>(count);
  const auto add = [&](const Dataset& images) {
    std::size_t i = std::min(before, images.samples.size());
    before -= i;
    for (; i < images.samples.size() && left > 0; ++i, --left) add_name(images, labels, i, names);
  };
  if (config.files_from.empty()) {
    add(set);
  } else {
    FileList list(config.files_from, config.data_path);
    for (Dataset part; left > 0 && list.next(kMaxOfList, part);) add(part);
  }
  return left == 0 ? std::optional(names.value()) : std::nullopt;
}

// The path is made absolute, since the same names in another folder are other images.
std::string full_path(const std::string& path) {
  std::error_code failure;
  return as_utf8(fs::absolute(path.empty() ? "." : path, failure).lexically_normal().string());
}

std::string number_text(const std::optional<double>& number) {
  return number ? shortest_text(*number) : "";
}

std::string switch_text(bool is_on) {
  return is_on ? "True" : "False";
}

ScoreSettings score_settings(const ScoreConfig& config, const PredictionJob& job,
                             const ScoreColumns& columns) {
  const RecordOptions& records = config.prediction.records;
  std::vector<std::string> roots, fields;
  for (const auto& [beginning, folder] : records.list_roots)
    roots.push_back(as_utf8(without_secrets(beginning)) + "=" + full_path(folder));
  for (const auto& [field, column] : records.columns)
    fields.push_back(as_utf8(field + "=" + column));
  return {.rows = {{"the model", as_utf8(job.models.front().print)},
                   {"--data-path", full_path(config.data_path)},
                   {"--list-root", joined(roots, ",")},
                   {"--columns", joined(fields, ",")},
                   {"--record-keys", as_utf8("image=" + records.keys.image)},
                   {"--top-k", std::to_string(columns.top_k)},
                   {"--all-classes", switch_text(columns.all_classes)},
                   {"--raw", switch_text(config.raw)},
                   {"--min-confidence", number_text(config.min_confidence)},
                   {"--answer-at", number_text(config.answer_at)},
                   {"--refuse-unlike", number_text(config.refuse_unlike)},
                   {"--neighbors", std::to_string(config.neighbors)},
                   // Rows of a killed job are continued only if it sorted their images, too.
                   {"--sort-into", config.sort_into.empty() ? ""
                                                            : (config.sorts_links ? "links:" : "") +
                                                                  full_path(config.sort_into)},
                   {"--precision", precision_name(job.precision.precision)},
                   {"the column true_label", switch_text(columns.true_labels)}},
          .bits = {{"--batch-size", std::to_string(config.prediction.batch_size)},
                   {"the number of compute threads", std::to_string(at::get_num_threads())},
                   {"the device", job.device.is_cuda ? job.device.description : "CPU"},
                   {"the instruction set", at::get_cpu_capability()},
                   {"the program", std::string(program_version())}}};
}

// Why the rows of this job could not be continued by another one, as a clause; empty if they could.
std::string why_in_one_go(const ScoreConfig& config, const ScoreFormat& format,
                          const std::optional<FileList>& list) {
  if (!format.is_lines) return "a file of this format cannot be resumed";
  if (!config.scored_dataset.empty()) return "--scored-dataset cannot be resumed";
  if (!config.explain.empty() || !config.page.empty())
    return "a page and heat maps need all of them";
  if (list && !list->can_be_read_again()) return "the list of --files-from is not a file";
  return "";
}

constexpr std::size_t kNamedLabels = 10;
constexpr int kPrintedClasses = 3, kOnPage = 1 + Prediction::kNumNext;
constexpr double kSecondsBetweenSaves = 2, kMaxSaving = 0.02;  // the latter as a share of the time

ScoreColumns columns_of(const ScoreConfig& config, const Predictor& model, bool has_true_labels) {
  const std::vector<std::string>& labels = model.directory.labels;
  const auto most = static_cast<int>(labels.size());
  const bool prints = config.output_path.empty();
  const int usual = prints ? (config.all_classes ? most : kPrintedClasses) : 1;
  return model.rule->fitted(
      {.labels = labels,
       .top_k = std::min(most, config.top_k > 0 ? config.top_k : usual),
       .all_classes = config.all_classes,
       .true_labels = has_true_labels,
       .guesses = config.min_confidence || config.answer_at || config.refuse_unlike,
       .alike = model.likeness.has_value(),
       .neighbors = config.neighbors});
}

// Turns predictions into rows, batch by batch in the order of the images. Use from one thread.
class Scoring {
 public:
  // Starts the outputs, or continues those of a killed job. The arguments must outlive the object.
  // `file`: none, if only a scored dataset is wanted. Throws Error.
  Scoring(const ScoreConfig& config, PredictionJob& job, const ScoreRows& job_rows,
          const ScoreFormat& format, std::optional<ScoreFile>& file)
      : config_(config),
        job_(job),
        rows_(job_rows),
        format_(format),
        file_(file),
        log_(job.log),
        model_(job.models.front()),
        true_labels_(job.images, model_.directory.labels),
        plan_{.thresholds = model_.rule->thresholds(config.min_confidence, config.answer_at),
              .is_raw = config.raw,
              // The thresholds of a model are of calibrated probabilities, --min-confidence is of
              // those that are written.
              .judges_raw = config.raw && config.min_confidence,
              .refuse_unlike = model_.least_alike(config.refuse_unlike),
              .neighbors = model_.neighbors(config.neighbors)},
        columns_(columns_of(config, model_, true_labels_.any())),
        encoder_(format.encoder(columns_)),
        notable_(columns_.guesses),
        faults_(config.prediction.max_bad_images, log_),
        progress_(job_rows.count(), log_) {
    plan_.top_k = columns_.top_k;
    if (!config.page.empty())
      plan_.top_k =
          std::max(plan_.top_k, std::min(kOnPage, static_cast<int>(columns_.labels.size())));
    plan_.all_classes = columns_.all_classes;
    warn_of_unknown_labels();
    if (config_.answer_at) model_.rule->log_answers(*config_.answer_at, plan_.thresholds, log_);
    if (!config_.page.empty()) {
      require_writable(config_.page);
      warn_without_pictures(log_);
      shown_.emplace(AnswersPage{
          .model = model_.directory.spec.model_name + " of " + config.trained_model_path,
          .data_path = config.data_path,
          .threshold = columns_.guesses ? plan_.thresholds[0] : 0,
          .classes = columns_.labels});
    }
    if (!config_.scored_dataset.empty())
      scored_dataset_.emplace(config_.scored_dataset, columns_.labels, columns_.true_labels);
    if (!config_.sort_into.empty())
      sorted_.emplace(config_.sort_into, config_.sorts_links, job_.images, columns_.labels, log_);
    if (file_) begin_file();
  }

  void score_all() {
    Predictions predictions(model_, job_, plan_);
    std::int64_t passed = 0;  // images of earlier portions of the list
    const auto score = [&](Dataset& set) {
      const auto size = static_cast<std::int64_t>(set.samples.size());
      const auto place_of = [&](std::int64_t image) {
        return static_cast<std::uint32_t>(std::clamp<std::int64_t>(image - passed, 0, size));
      };
      const std::uint32_t first = place_of(rows_.begin + num_before_);
      for (std::uint32_t i = place_of(rows_.begin); i < first; ++i)
        add_name(set, true_labels_, i, names_);
      predictions.for_each(set,
                           [&](AnsweredBatch& batch) { add(set, predictions.pixels(), batch); },
                           {.first = first, .end = place_of(rows_.end)});
      passed += size;
    };
    if (!job_.list) score(job_.images);
    // The first portion tells the size of images if the model does not, so no portion is skipped.
    for (Dataset some; job_.list && passed < rows_.end && job_.list->next(kMaxOfList, some);)
      score(some);
    finish(predictions.pixels());
  }

 private:
  // Adds the next batch, whose images belong to `set`.
  void add(const Dataset& set, const TransformSpec& pixels, AnsweredBatch& batch) {
    at::Tensor plain;  // without temperature
    if (scored_dataset_ && batch.outputs.logits.defined()) plain = batch.outputs.logits.softmax(1);
    std::string rows;
    for (auto& [i, hash, at, row] : batch.images) {
      row.true_label = true_labels_.of(i);
      count(row, true_labels_.is_known(i), hash);
      add_name(set, true_labels_, i, names_);
      if (shown_) {
        shown_->add(set, i, pixels, row);
        row.best.resize(std::min(row.best.size(), static_cast<std::size_t>(columns_.top_k)));
      }
      if (file_) rows += encoder_->row(row);
      if (!scored_dataset_ || row.best.empty()) continue;
      const at::Tensor shares = plain[static_cast<std::int64_t>(*at)];
      const auto* first = shares.const_data_ptr<float>();
      scored_dataset_->add(row, job_.list ? so_far_.num_images - 1 : set.samples[i].id,
                           {first, first + shares.numel()});
    }
    for (const AnsweredImage& image : batch.images)
      if (sorted_) sorted_->add(set, image);
    if (file_) file_->write(rows);
    save_progress();
    progress_.show(so_far_.num_images, num_before_);
  }

  // After the last image. `pixels` is the preprocessing that was used. Throws Error
  // kInvalidDataset if there was none, or, when all is written, if too many were bad.
  void finish(const TransformSpec& pixels) {
    if (so_far_.num_images == 0 && rows_.num_images == 0)  // otherwise, this part has none
      throw Error(
          ErrorCode::kInvalidDataset,
          job_.list ? "--files-from '" + config_.files_from + "' is empty: give one path per line."
                    : "Images '" + config_.data_path + "': its list is empty. Add images to it.");
    if (file_) {
      file_->write(encoder_->end());
      file_->commit();
      if (config_.part) write_file_durably(part_note_path(config_.output_path), part_note_);
    }
    if (scored_dataset_) scored_dataset_->commit();
    log_result();
    if (shown_) {
      shown_->write(faults_.num_bad, config_.page);
      log_.info("page:      '" + config_.page + "'");
    }
    if (sorted_) sorted_->log_result();
    if (job_.explanations) explain(pixels);
    faults_.check(so_far_.num_images);
    if (!config_.part) faults_.require_any_good(so_far_.num_images);
  }

  // Rows are saved between batches, so a resumed job has the same batches as an uninterrupted one.
  void begin_file() {
    so_far_.settings = score_settings(config_, job_, columns_);
    if (config_.part) {
      remove_quietly(part_note_path(config_.output_path));
      const auto names =
          names_of_rows(0, rows_.num_images, config_, job_.images, true_labels_).value_or(0);
      part_note_ = part_note(config_, rows_, model_.print, so_far_.settings, names);
    }
    const std::string in_one_go = why_in_one_go(config_, format_, job_.list);
    is_saved_ = !config_.output_path.empty() && in_one_go.empty();
    std::optional<ScoreProgress> found;
    if (config_.resume != ResumeChoice::kNever) found = find_rows(in_one_go);
    if (!found) {
      file_->restart();
      // One part begins a file that others continue, if its rows are lines.
      if (!config_.part || config_.part->number == 1 || !format_.is_lines)
        file_->write(encoder_->begin());
      return;
    }
    so_far_ = *std::move(found);
    num_before_ = so_far_.num_images;
    faults_.num_bad = so_far_.num_bad;
    faults_.num_damaged = so_far_.num_damaged;
    faults_.first_bad = so_far_.first_bad;
    file_->resume(so_far_);
  }

  // Where this job continues; empty if it starts over. Logs one line about what was done before, or
  // why it is repeated.
  std::optional<ScoreProgress> find_rows(const std::string& in_one_go) const {
    UnfinishedScores left = file_->unfinished();
    if (!left.damage.empty())
      log_.warning("The rows of an earlier job cannot be reused, so all images are scored again: " +
                   left.damage + ".");
    if (!left.progress) return std::nullopt;
    const std::string before =
        plural(left.progress->num_images, "image was", "images were") + " already scored";
    std::string why = in_one_go;
    if (why.empty())
      why = joined(differences(left.progress->settings.rows, so_far_.settings.rows), "; ");
    if (why.empty() && names_of_rows(rows_.begin, left.progress->num_images, config_, job_.images,
                                     true_labels_) != left.progress->names)
      why = "the images have different names, labels or order";
    if (!why.empty()) {
      log_.info("restarted: " + before + ", but are scored again: " + why);
      return std::nullopt;
    }
    log_.info("resumed:   " + before);
    const auto changes = differences(left.progress->settings.bits, so_far_.settings.bits);
    if (!changes.empty())
      log_.warning(
          "Later confidences may differ in their last bits from those of an uninterrupted job: " +
          joined(changes, "; ") + ".");
    left.progress->settings = so_far_.settings;
    return left.progress;
  }

  void warn_of_unknown_labels() const {
    if (const std::string fault =
            fault_of_numbers(job_.images, columns_.labels, config_.prediction.records.first_label);
        !fault.empty())
      log_.warning("Labels may be those of the classes beside: " + fault);
    const UnknownLabels unknown = true_labels_.unknown();
    if (unknown.num_images == 0) return;
    log_.warning(plural(unknown.num_images, "image has", "images have") +
                 " a label that the model does not know: " +
                 quoted_among(unknown.names, columns_.labels, kNamedLabels) + ". The " +
                 std::string(model_.rule->words.accuracy) + " leaves such images out.");
  }

  // `may_be_right` is whether the model knows the true label, `hash` is that of the image.
  void count(const Score& row, bool may_be_right, std::uint64_t hash) {
    ++so_far_.num_images;
    const bool is_bad = row.best.empty();
    const bool is_judged = !is_bad && may_be_right;
    const bool is_right = is_judged && label_text(columns_.labels, row) == row.true_label;
    so_far_.num_labeled += is_judged;
    so_far_.num_right += is_right;
    if (job_.explanations) notable_.see(so_far_.num_images - 1, row, is_judged && !is_right);
    so_far_.num_unsure += row.is_unsure;
    if (!row.fault.empty()) faults_.add(row.path, row.fault, is_bad);
    const std::optional<SeenImages>& seen = model_.directory.seen_images;
    if (!seen || hash == 0) return;
    so_far_.num_seen_in_training += seen->was_trained_on(hash);
    so_far_.num_seen_in_validation += seen->was_chosen_on(hash);
  }

  // Saves the rows and the progress, so that another job can continue if this one is killed. Saves
  // less often on slow disks.
  void save_progress() {
    const double now = progress_.seconds();
    if (!is_saved_ || now < next_save_) return;
    so_far_.names = names_.value();
    so_far_.num_bad = faults_.num_bad;
    so_far_.num_damaged = faults_.num_damaged;
    so_far_.first_bad = printable(faults_.first_bad);
    file_->save(so_far_);
    const double took = progress_.seconds() - now;
    next_save_ = now + std::max(kSecondsBetweenSaves, took / kMaxSaving);
  }

  void log_result() const {
    const double seconds = progress_.seconds();
    const std::int64_t num_now = so_far_.num_images - num_before_;
    log_.info("Scored " + plural(so_far_.num_images, "image", "images") +
              (num_before_ == 0 ? "" : ", " + grouped(num_now) + " of them in this run,") +
              formatted(" in %s (%.1f images/s)", duration_text(seconds).c_str(),
                        static_cast<double>(num_now) / seconds) +
              (config_.output_path.empty() ? "." : ": '" + config_.output_path + "'."));
    if (faults_.num_bad + faults_.num_damaged > 0)
      log_.info(formatted("bad images: %lld; damaged but used: %lld", faults_.num_bad,
                          faults_.num_damaged));
    if (columns_.guesses)
      log_.info(formatted("unsure:    %s of them below the confidence threshold%s",
                          grouped(so_far_.num_unsure).c_str(),
                          config_.refuse_unlike ? ", or unlike the training images" : ""));
    if (so_far_.num_labeled > 0)
      log_.info(formatted(
          "%s: %.2f %% of %s with %s that the model knows", model_.rule->words.accuracy,
          100 * static_cast<double>(so_far_.num_right) / static_cast<double>(so_far_.num_labeled),
          plural(so_far_.num_labeled, "image", "images").c_str(), model_.rule->words.known));
    for (const std::string& text :
         seen_texts({so_far_.num_seen_in_training, so_far_.num_seen_in_validation}))
      log_.warning(text);
  }

  void explain(const TransformSpec& pixels) {
    Dataset named;  // since the parts of a list are no longer in memory
    named.root = config_.data_path;
    std::vector<Prediction> answers;
    for (const auto& [image, path, best] : notable_.all()) {
      if (job_.list) named.samples.push_back({.file_name = path});
      answers.push_back({.sample = static_cast<std::uint32_t>(job_.list ? answers.size() : image),
                         .predicted = best.id,
                         .confidence = best.confidence});
    }
    job_.explanations->add(model_, pixels, job_.list ? named : job_.images, answers, log_);
    job_.explanations->commit(log_);
  }

  const ScoreConfig& config_;
  PredictionJob& job_;
  const ScoreRows& rows_;
  const ScoreFormat& format_;
  std::optional<ScoreFile>& file_;
  Log& log_;
  Predictor& model_;
  const TrueLabels true_labels_;
  AnswerPlan plan_;
  const ScoreColumns columns_;
  const std::unique_ptr<ScoreEncoder> encoder_;
  std::optional<ScoredDataset> scored_dataset_;
  std::optional<ShownScores> shown_;  // for --page
  std::optional<SortedFolders> sorted_;
  NotableAnswers notable_;
  PredictionFaults faults_;
  ScoreProgress so_far_;         // its fault counts are those last saved
  ContentHash names_{0};         // of the first so_far_.num_images images
  std::string part_note_;        // written when the part is complete
  std::int64_t num_before_ = 0;  // images done by the job that this one continues
  bool is_saved_ = false;
  double next_save_ = kSecondsBetweenSaves;
  ScoringProgress progress_;
};

void log_start(const ScoreConfig& config, const PredictionJob& job, const ScoreRows& rows) {
  Log& log = job.log;
  job.log_model(job.models.front());
  log.info("images:    " +
           (job.list ? "those in '" + config.files_from + "'"
                     : grouped(job.images.samples.size()) + ", " + describe(job.images.kind)));
  if (config.part)
    log.info(formatted("part:      %d of %d, ", config.part->number, config.part->count) +
             plural(rows.count(), "image", "images") + " from number " + grouped(rows.begin + 1));
  for (const std::string& note : job.images.notes) log.warning(note);
  if (const std::string note = note_of_lost_contrast(job.images); !note.empty()) log.warning(note);
}

}  // namespace

ScoreRows rows_of_part(const JobPart& part, std::int64_t num_images, std::int64_t batch_size,
                       std::int64_t portion) {
  const auto batches_of = [&](std::int64_t images) {
    return (images + batch_size - 1) / batch_size;
  };
  const std::int64_t num_batches =
      num_images / portion * batches_of(portion) + batches_of(num_images % portion);
  const auto first_of = [&](std::int64_t batch) {
    const std::int64_t whole = batch / batches_of(portion), rest = batch % batches_of(portion);
    return std::min(num_images, whole * portion + rest * batch_size);
  };
  return {.begin = first_of(num_batches * (part.number - 1) / part.count),
          .end = first_of(num_batches * part.number / part.count),
          .num_images = num_images};
}

fs::path part_note_path(const fs::path& file) {
  const std::string name = file.filename().string() + ".json";
  return file.parent_path() / (file.extension() == ".parquet" ? "_" + name : name);
}

void NotableAnswers::see(std::size_t image, const Score& score, bool is_wrong) {
  if (score.best.empty()) return;
  const NotableAnswer answer{image, score.path, score.best.front()};
  const auto confidence = [](const NotableAnswer& one) { return one.best.confidence; };
  // Of equal answers the one seen first comes first.
  const auto keep = [&](std::vector<NotableAnswer>& answers, std::size_t most, const auto& order) {
    answers.insert(std::ranges::upper_bound(answers, confidence(answer), order, confidence),
                   answer);
    if (answers.size() > most) answers.pop_back();
  };
  if (score.is_unsure || !unsure_alone_) keep(doubtful_, unsure_alone_ ? 76 : 24, std::less{});
  if (is_wrong) keep(wrong_, 24, std::greater{});
}

std::vector<NotableAnswer> NotableAnswers::all() const {
  std::vector<NotableAnswer> answers = doubtful_;
  for (const NotableAnswer& answer : wrong_)
    if (std::ranges::find(doubtful_, answer.image, &NotableAnswer::image) == doubtful_.end())
      answers.push_back(answer);
  return answers;
}

int run(const ScoreConfig& config, Process& process) {
  Log& log = process.log;
  survive_broken_pipes();
  end_on_stop_signals();
  if (config.output_path.empty()) log.use_standard_error();
  PredictionJob job(config.prediction, log, config.part ? config.part->local : 0,
                    config.part ? config.part->num_local : 1);
  ScoreRows rows;
  const ScoreFormat* format = nullptr;
  std::optional<ScoreFile> file;
  Problems problems;
  problems.collect([&] {
    job.open_model(config.trained_model_path, config.top_k > 0                 ? "--top-k"
                                              : !config.scored_dataset.empty() ? "--scored-dataset"
                                              : !config.page.empty()           ? "--page"
                                                                               : "");
  });
  problems.collect([&] {
    job.read_images(config.data_paths, config.files_from);
    rows = rows_of_job(config, job.images);
  });
  problems.collect([&] {
    const std::string extension = fs::path(config.output_path).extension().string();
    if (config.output_path.empty() || !extension.empty())
      format = find_score_format(config.json ? ".jsonl" : extension);
    if (format == nullptr)
      throw Error(ErrorCode::kParameterParsing, "--output-path is '" + excerpt(config.output_path) +
                                                    "', but must end in " + score_extensions() +
                                                    ".");
  });
  if (format != nullptr && (!config.output_path.empty() || config.scored_dataset.empty()))
    problems.collect([&] {
      if (config.part && !format->is_lines)
        prepare_folder_of_parts(config.output_path, *config.part);
      file.emplace(config.output_path);
    });
  if (!config.explain.empty()) problems.collect([&] { job.explanations.emplace(config.explain); });
  problems.throw_if_any();
  log_start(config, job, rows);
  try {
    Scoring(config, job, rows, *format, file).score_all();
  } catch (const Error& failure) {
    // The user may repair bad images under the same names, and then the saved rows would be wrong.
    if (failure.code() == ErrorCode::kInvalidDataset && file) file->discard();
    throw;
  }
  return 0;
}

}  // namespace kiln
