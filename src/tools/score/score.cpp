// open_job(): the model, the images, the output. score_images(): the rest of a part, batch by
// batch. Scoring: what becomes of the answers of a batch. run() at the end ties them together.
#include "tools/score/score.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <tuple>
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
#include "predict/explanations.h"
#include "predict/inference.h"
#include "record/evaluation.h"
#include "record/run_summary.h"
#include "record/training_record.h"
#include "report/scores/score_file.h"
#include "run/inputs/image_sizes.h"
#include "tools/commands.h"
#include "tools/score/scoring_progress.h"

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
  for (Dataset some; list.next(kMaxOfList, some);)
    num_images += static_cast<std::int64_t>(some.samples.size());
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

// A hash over the names and true labels of images, in order.
class NamesHash {
 public:
  void add(const Dataset& set, const TrueLabels& labels, std::size_t image) {
    constexpr std::string_view kEnd("\0", 1);  // occurs in no path
    hash_.add(set.samples.file_name(image));
    hash_.add(kEnd);
    hash_.add(labels.of(image));
    hash_.add(kEnd);
  }
  std::uint64_t value() const { return hash_.value(); }

 private:
  ContentHash hash_{0};
};

// The NamesHash of `count` images of --files-from, or otherwise of `set`, from image `first` on;
// empty if there are fewer.
std::optional<std::uint64_t> names_of_rows(std::int64_t first, std::int64_t count,
                                           const ScoreConfig& config, const Dataset& set,
                                           const TrueLabels& labels) {
  NamesHash hash;
  auto before = static_cast<std::size_t>(first), left = static_cast<std::size_t>(count);
  const auto add = [&](const Dataset& images) {
    std::size_t i = std::min(before, images.samples.size());
    before -= i;
    for (; i < images.samples.size() && left > 0; ++i, --left) hash.add(images, labels, i);
  };
  if (config.files_from.empty()) {
    add(set);
  } else {
    FileList list(config.files_from, config.data_path);
    for (Dataset part; left > 0 && list.next(kMaxOfList, part);) add(part);
  }
  return left == 0 ? std::optional(hash.value()) : std::nullopt;
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

// What the same names of images stand for depends on it.
std::string where_images_are(const RecordOptions& records) {
  std::vector<std::string> texts;
  for (const auto& [beginning, folder] : records.list_roots)
    texts.push_back(as_utf8(without_secrets(beginning)) + "=" + full_path(folder));
  return joined(texts, ",");
}

std::string columns_text(const RecordOptions& records) {
  std::vector<std::string> texts;
  for (const auto& [field, column] : records.columns)
    texts.push_back(as_utf8(field + "=" + column));
  return joined(texts, ",");
}

ScoreSettings score_settings(const ScoreConfig& config, const Predictor& predictor,
                             const Inference& inference, const ScoreColumns& columns) {
  return {
      .rows = {{"the model", as_utf8(predictor.print())},
               {"--data-path", full_path(config.data_path)},
               {"--list-root", where_images_are(config.prediction.records)},
               {"--columns", columns_text(config.prediction.records)},
               {"--record-keys", as_utf8("image=" + config.prediction.records.keys.image)},
               {"--top-k", std::to_string(columns.top_k)},
               {"--all-classes", switch_text(columns.all_classes)},
               {"--raw", switch_text(config.raw)},
               {"--min-confidence", number_text(config.min_confidence)},
               {"--answer-at", number_text(config.answer_at)},
               {"--precision", precision_name(inference.precision())},
               {"the column true_label", switch_text(columns.true_labels)}},
      .bits = {{"--batch-size", std::to_string(config.prediction.batch_size)},
               {"the number of compute threads", std::to_string(at::get_num_threads())},
               {"the device", inference.device().is_cuda ? inference.device().description : "CPU"},
               {"the instruction set", at::get_cpu_capability()},
               {"the program", std::string(program_version())}}};
}

// Why the rows of this job could not be continued by another one, as a clause; empty if they could.
// `list` is that of --files-from, or nullptr.
std::string why_in_one_go(const ScoreConfig& config, const ScoreFormat& format,
                          const FileList* list) {
  if (!format.is_lines) return "a file of this format cannot be resumed";
  if (!config.scored_dataset.empty()) return "--scored-dataset cannot be resumed";
  if (!config.explain.empty()) return "--explain needs all of them";
  if (list != nullptr && !list->can_be_read_again())
    return "the list of --files-from is not a file";
  return "";
}

// What the command reads and writes.
struct ScoreJob {
  explicit ScoreJob(const ScoreConfig& config)
      : inference(config.prediction, config.part ? config.part->local : 0,
                  config.part ? config.part->num_local : 1) {}

  const Inference inference;
  std::optional<Predictor> predictor;
  Dataset set;                   // from --data-path, if there is no list
  std::optional<FileList> list;  // from --files-from
  ScoreRows rows;
  const ScoreFormat* format = nullptr;
  std::optional<ScoreFile> file;
  std::optional<ExplanationFolder> explanations;
};

constexpr std::size_t kNamed = 10;
constexpr int kPrintedClasses = 3;
constexpr double kSecondsBetweenSaves = 2, kMaxSaving = 0.02;  // the latter as a share of the time

ScoreColumns columns_of(const ScoreConfig& config, const ScoreJob& job,
                        const TrueLabels& true_labels) {
  const std::vector<std::string>& labels = job.predictor->labels();
  const auto most = static_cast<int>(labels.size());
  const bool prints = config.output_path.empty();
  const int usual = prints ? (config.all_classes ? most : kPrintedClasses) : 1;
  ScoreColumns columns{.labels = labels,
                       .top_k = std::min(most, config.top_k > 0 ? config.top_k : usual),
                       .all_classes = config.all_classes,
                       .true_labels = true_labels.any(),
                       .guesses = config.min_confidence || config.answer_at};
  job.predictor->rule().fit_columns(columns);
  return columns;
}

std::span<const float> span_of(const at::Tensor& probabilities, std::size_t at) {
  const auto num_classes = static_cast<std::size_t>(probabilities.size(1));
  return {probabilities.const_data_ptr<float>() + at * num_classes, num_classes};
}

std::vector<float> row_of(const at::Tensor& probabilities, std::size_t at) {
  const std::span<const float> row = span_of(probabilities, at);
  return {row.begin(), row.end()};
}

// Turns predictions into rows, batch by batch in the order of the images. Use from one thread.
class Scoring {
 public:
  // Starts the outputs, or continues those of a killed job. The arguments must outlive the object.
  // Throws Error.
  Scoring(const ScoreConfig& config, ScoreJob& job, Log& log)
      : config_(config),
        job_(job),
        log_(log),
        total_(job.rows.count()),
        true_labels_(job.set, job.predictor->labels()),
        rule_(job.predictor->rule()),
        thresholds_(rule_.thresholds(config.min_confidence, config.answer_at)),
        columns_(columns_of(config, job, true_labels_)),
        encoder_(job.format->encoder(columns_)),
        notable_(columns_.guesses),
        faults_(config.prediction.max_bad_images, log),
        progress_(total_, log) {
    warn_of_unknown_labels();
    if (config_.answer_at) rule_.log_answers(*config_.answer_at, thresholds_, log_);
    if (!config_.scored_dataset.empty())
      scored_dataset_.emplace(config_.scored_dataset, columns_.labels, columns_.true_labels);
    if (job_.file) begin_file(*job_.file);
  }

  // The number of images, from the first one of this job on, that already have rows.
  std::int64_t num_before() const { return num_before_; }
  // Passes over the next ones of those images: images `first` to `end` - 1 of `set`.
  void pass_over(const Dataset& set, std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t i = first; i < end; ++i) names_.add(set, true_labels_, i);
  }

  // Adds the next batch, whose images belong to `set`.
  void add(const Dataset& set, const PredictedBatch& predicted) {
    const Ranked ranked = predicted.logits.defined() ? ranked_classes(predicted.logits) : Ranked();
    std::string rows;
    for (const BatchImage& image : predicted.images) {
      const std::uint32_t i = image.index;
      Score row{.path = std::string(set.samples.file_name(i)),
                .true_label = true_labels_.of(i),
                .fault = image.fault};
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
    save_progress();
    progress_.show(so_far_.num_images, num_before_);
  }

  // Call it after the last image. `pixels` is the preprocessing that was used. Throws Error
  // kInvalidDataset if there was none, or, when all is written, if too many were bad.
  void finish(const TransformSpec& pixels) {
    const bool is_empty_part = so_far_.num_images == 0 && job_.rows.num_images > 0;
    if (so_far_.num_images == 0 && !is_empty_part)
      throw Error(
          ErrorCode::kInvalidDataset,
          job_.list ? "--files-from '" + config_.files_from + "' is empty: give one path per line."
                    : "Images '" + config_.data_path + "': its list is empty. Add images to it.");
    if (job_.file) {
      job_.file->write(encoder_->end());
      job_.file->commit();
      if (config_.part) write_file_durably(part_note_path(config_.output_path), part_note_);
    }
    if (scored_dataset_) scored_dataset_->commit();
    log_result();
    if (job_.explanations) explain(pixels);
    faults_.check(so_far_.num_images);
    if (!config_.part) faults_.require_any_good(so_far_.num_images);
  }

 private:
  // On the CPU: probabilities [N, num_classes] as they are written, as thresholds judge them, and
  // without temperature; and confidences and ids of the most probable classes, [N, top_k].
  struct Ranked {
    at::Tensor probabilities, judged, plain, confidences, ids;
  };

  // Rows are saved between batches, so a resumed job has the same batches as an uninterrupted one.
  void begin_file(ScoreFile& file) {
    so_far_.settings = score_settings(config_, *job_.predictor, job_.inference, columns_);
    if (config_.part) {
      std::error_code failure;
      fs::remove(part_note_path(config_.output_path), failure);
      const auto names =
          names_of_rows(0, job_.rows.num_images, config_, job_.set, true_labels_).value_or(0);
      part_note_ = part_note(config_, job_.rows, job_.predictor->print(), so_far_.settings, names);
    }
    const std::string in_one_go =
        why_in_one_go(config_, *job_.format, job_.list ? &*job_.list : nullptr);
    is_saved_ = !config_.output_path.empty() && in_one_go.empty();
    std::optional<ScoreProgress> found;
    if (config_.resume != ResumeChoice::kNever) found = find_rows(file, in_one_go);
    if (!found) {
      file.restart();
      // One part begins a file that others continue, if its rows are lines.
      if (!config_.part || config_.part->number == 1 || !job_.format->is_lines)
        file.write(encoder_->begin());
      return;
    }
    so_far_ = *std::move(found);
    num_before_ = so_far_.num_images;
    faults_.num_bad = so_far_.num_bad;
    faults_.num_damaged = so_far_.num_damaged;
    faults_.first_bad = so_far_.first_bad;
    file.resume(so_far_);
  }

  // Where this job continues; empty if it starts over. Logs one line about what was done before, or
  // why it is repeated.
  std::optional<ScoreProgress> find_rows(ScoreFile& file, const std::string& in_one_go) const {
    UnfinishedScores left = file.unfinished();
    if (!left.damage.empty())
      log_.warning("The rows of an earlier job cannot be reused, so all images are scored again: " +
                   left.damage + ".");
    if (!left.progress) return std::nullopt;
    const std::string before =
        plural(left.progress->num_images, "image was", "images were") + " already scored";
    const std::string why = in_one_go.empty() ? what_differs(*left.progress) : in_one_go;
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

  // A clause that says what differs; empty if nothing that determines the rows does.
  std::string what_differs(const ScoreProgress& before) const {
    const auto changes = differences(before.settings.rows, so_far_.settings.rows);
    if (!changes.empty()) return joined(changes, "; ");
    return names_of_rows(job_.rows.begin, before.num_images, config_, job_.set, true_labels_) ==
                   before.names
               ? ""
               : "the images have different names, labels or order";
  }

  void warn_of_unknown_labels() const {
    if (const std::string fault = fault_of_numbers(job_.set, job_.predictor->labels(),
                                                   config_.prediction.records.first_label);
        !fault.empty())
      log_.warning("Labels may be those of the classes beside: " + fault);
    const UnknownLabels unknown = true_labels_.unknown();
    if (unknown.num_images == 0) return;
    log_.warning(plural(unknown.num_images, "image has", "images have") +
                 " a label that the model does not know: " +
                 quoted_among(unknown.names, job_.predictor->labels(), kNamed) + ". The " +
                 std::string(rule_.words().accuracy) + " leaves such images out.");
  }

  Ranked ranked_classes(const at::Tensor& logits) const {
    Ranked ranked;
    ranked.probabilities = rule_.probabilities(logits, config_.raw);
    // The thresholds of a model are of calibrated probabilities, --min-confidence is of those that
    // are written.
    ranked.judged = config_.raw && !config_.min_confidence
                        ? rule_.probabilities(logits, /*is_raw=*/false)
                        : ranked.probabilities;
    if (scored_dataset_) ranked.plain = logits.softmax(1);
    std::tie(ranked.confidences, ranked.ids) = at::topk(ranked.probabilities, columns_.top_k, 1);
    return ranked;
  }

  // `at` is the row's place in the batch.
  void fill(Score& row, const Ranked& ranked, std::size_t at) const {
    const auto top_k = static_cast<std::size_t>(columns_.top_k);
    const auto* confidence = ranked.confidences.const_data_ptr<float>() + at * top_k;
    if (!std::isfinite(confidence[0])) {
      row.fault = kNoNumberFault;
      return;
    }
    const auto* id = ranked.ids.const_data_ptr<std::int64_t>() + at * top_k;
    for (std::size_t place = 0; place < top_k; ++place)
      row.best.push_back({static_cast<int>(id[place]), confidence[place]});
    if (columns_.all_classes) row.probabilities = row_of(ranked.probabilities, at);
    rule_.decide(thresholds_, span_of(ranked.judged, at), row);
  }

  // `may_be_right` is whether the model knows the true label.
  void note(const Score& row, bool may_be_right) {
    ++so_far_.num_images;
    const bool is_bad = row.best.empty();
    const bool is_judged = !is_bad && may_be_right;
    const bool is_right = is_judged && label_text(columns_.labels, row) == row.true_label;
    so_far_.num_labeled += is_judged;
    so_far_.num_right += is_right;
    if (job_.explanations)
      notable_.see(static_cast<std::size_t>(so_far_.num_images - 1), row, is_judged && !is_right);
    so_far_.num_unsure += row.is_unsure;
    if (!row.fault.empty()) faults_.note(row.path, row.fault, is_bad);
  }

  void note_seen(std::uint64_t hash) {
    const std::optional<SeenImages>& seen = job_.predictor->seen_images();
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
    job_.file->save(so_far_);
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
      log_.info(formatted("unsure:    %s of them below the confidence threshold",
                          grouped(so_far_.num_unsure).c_str()));
    if (so_far_.num_labeled > 0)
      log_.info(formatted(
          "%s: %.2f %% of %s with %s that the model knows", rule_.words().accuracy,
          100 * static_cast<double>(so_far_.num_right) / static_cast<double>(so_far_.num_labeled),
          plural(so_far_.num_labeled, "image", "images").c_str(), rule_.words().known));
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
    const Explained explained =
        job_.explanations->add(*job_.predictor, job_.inference.torch_device(), pixels,
                               job_.list ? named : job_.set, answers);
    for (const std::string& note : explained.notes) log_.warning(note);
    job_.explanations->commit();
    log_.info("heat maps of " + plural(explained.num_drawn, "image", "images") + ": '" +
              config_.explain + "'");
  }

  const ScoreConfig& config_;
  ScoreJob& job_;
  Log& log_;
  const long long total_;  // 0: unknown, the images come from a growing list
  const TrueLabels true_labels_;
  const AnswerRule& rule_;
  const std::vector<double> thresholds_;
  const ScoreColumns columns_;
  const std::unique_ptr<ScoreEncoder> encoder_;
  std::optional<ScoredDataset> scored_dataset_;
  NotableAnswers notable_;
  PredictionFaults faults_;
  ScoreProgress so_far_;         // its fault counts are those last saved
  NamesHash names_;              // of the first so_far_.num_images images
  std::string part_note_;        // written when the part is complete
  std::int64_t num_before_ = 0;  // images done by the job that this one continues
  bool is_saved_ = false;
  double next_save_ = kSecondsBetweenSaves;
  ScoringProgress progress_;
};

const ScoreFormat* format_of(const std::string& output_path) {
  const std::string extension = fs::path(output_path).extension().string();
  const ScoreFormat* format =
      extension.empty() && !output_path.empty() ? nullptr : find_score_format(extension);
  if (format != nullptr) return format;
  throw Error(ErrorCode::kParameterParsing, "--output-path is '" + excerpt(output_path) +
                                                "', but must end in " + score_extensions() + ".");
}

void open_images(const ScoreConfig& config, ScoreJob& job) {
  RecordOptions records = config.prediction.records;
  if (job.predictor)
    records.task = task_of_labels(job.predictor->spec().task, job.predictor->labels());
  if (config.data_paths.size() > 1)
    job.set = read_image_files(config.data_paths, "Images");
  else if (config.files_from.empty())
    job.set = read_every_image(config.data_path, "Images", records);
  else
    job.list.emplace(config.files_from, config.data_path);
  if (job.list) job.set.kind = Dataset::Kind::kFileList;
  report_unused(records, job.set);
  job.rows = rows_of_job(config, job.set);
}

// Throws all problems together.
void open_job(const ScoreConfig& config, ScoreJob& job) {
  Problems problems;
  const std::string one_label = config.top_k > 0                 ? "--top-k"
                                : !config.scored_dataset.empty() ? "--scored-dataset"
                                                                 : "";
  problems.collect([&] {
    job.predictor.emplace(job.inference.open(config.trained_model_path));
    job.predictor->rule().require_one_label(one_label);
  });
  problems.collect([&] { open_images(config, job); });
  problems.collect([&] { job.format = format_of(config.output_path); });
  const bool has_file = !config.output_path.empty() || config.scored_dataset.empty();
  if (job.format != nullptr && has_file)
    problems.collect([&] {
      if (config.part && !job.format->is_lines)
        prepare_folder_of_parts(config.output_path, *config.part);
      job.file.emplace(config.output_path);
    });
  if (!config.explain.empty()) problems.collect([&] { job.explanations.emplace(config.explain); });
  problems.throw_if_any();
}

void log_start(const ScoreConfig& config, const ScoreJob& job, Log& log) {
  const Predictor& predictor = *job.predictor;
  log.info("model:     " + predictor.spec().model_name + ", " +
           plural(std::ssize(predictor.labels()), "class", "classes") + ", " +
           precision_name(job.inference.precision()) + ", " + job.inference.device().description);
  log.info("images:    " + (job.list
                                ? "those in '" + config.files_from + "'"
                                : grouped(job.set.samples.size()) + ", " + describe(job.set.kind)));
  if (config.part)
    log.info(formatted("part:      %d of %d, ", config.part->number, config.part->count) +
             plural(job.rows.count(), "image", "images") + " from number " +
             grouped(job.rows.begin + 1));
  if (!job.inference.precision_warning().empty()) log.warning(job.inference.precision_warning());
  for (const std::string& note : predictor.notes()) log.warning(note);
  for (const std::string& note : job.set.notes) log.warning(note);
  if (const std::string note = note_of_lost_contrast(job.set); !note.empty()) log.warning(note);
}

void score_images(const ScoreConfig& config, ScoreJob& job, Log& log) {
  Predictions predictions(*job.predictor, job.inference, log);
  Scoring scoring(config, job, log);
  std::int64_t passed = 0;  // images of earlier portions of the list
  const auto score = [&](Dataset& set) {
    const auto size = static_cast<std::int64_t>(set.samples.size());
    const auto place_of = [&](std::int64_t image) {
      return static_cast<std::uint32_t>(std::clamp<std::int64_t>(image - passed, 0, size));
    };
    const std::uint32_t first = place_of(job.rows.begin + scoring.num_before());
    scoring.pass_over(set, place_of(job.rows.begin), first);
    predictions.for_each(set, [&](const PredictedBatch& batch) { scoring.add(set, batch); },
                         {.first = first, .end = place_of(job.rows.end)});
    passed += size;
  };
  if (!job.list) score(job.set);
  // The first portion tells the size of images if the model does not, so no portion is skipped.
  for (Dataset some; job.list && passed < job.rows.end && job.list->next(kMaxOfList, some);)
    score(some);
  scoring.finish(predictions.pixels());
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
  ScoreJob job(config);
  open_job(config, job);
  log_start(config, job, log);
  try {
    score_images(config, job, log);
  } catch (const Error& failure) {
    // The user may repair bad images under the same names, and then the saved rows would be wrong.
    if (failure.code() == ErrorCode::kInvalidDataset && job.file) job.file->discard();
    throw;
  }
  return 0;
}

}  // namespace kiln
