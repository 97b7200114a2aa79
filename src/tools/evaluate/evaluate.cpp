#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/output_folder.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_source.h"
#include "parallel/processors/compute_threads.h"
#include "predict/explanations.h"
#include "predict/thumbnail.h"
#include "record/evaluation_record.h"
#include "report/mlflow/mlflow_sink.h"
#include "report/page/evaluation_page.h"
#include "report/tensorboard.h"
#include "run/process/versions.h"
#include "tools/commands.h"
#include "tools/evaluate/model_evaluation.h"
#include "tools/report/report_folder.h"
#include "tools/score/scoring_progress.h"
#include "train/precision.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxThumbnails = 24;
constexpr const char* kPageName = "evaluation.html";
constexpr const char* kTensorboardFolder = "tensorboard";

// What the command reads and writes.
struct Parts {
  Device device;
  PrecisionChoice precision;
  std::vector<std::unique_ptr<Predictor>> predictors;
  Dataset set;
  std::optional<OutputFolder> output;
  std::optional<ExplanationFolder> explanations;
};

// Throws all problems together.
void open_parts(const EvaluateConfig& config, Parts& parts) {
  parts.device = choose_device(config.prediction.device);
  parts.precision = choose_precision(config.prediction.precision, units_of(parts.device));
  Problems problems;
  for (const std::string& path : config.trained_model_paths)
    problems.collect([&] {
      parts.predictors.push_back(
          std::make_unique<Predictor>(path, torch_device(parts.device), parts.precision.precision));
    });
  problems.collect(
      [&] { parts.set = read_every_image(config.data_path, "Images", config.prediction.records); });
  problems.collect([&] {
    parts.output.emplace(
        open_report_folder(config.output_path, kEvaluationFileName, "an evaluation"));
  });
  if (!config.explain.empty())
    problems.collect(
        [&] { parts.explanations.emplace(config.explain, config.trained_model_paths.size()); });
  problems.throw_if_any();
}

std::optional<SeenCounts> count_seen(const Predictor& predictor, const SampleTable& samples) {
  if (!predictor.seen_images()) return std::nullopt;
  SeenCounts counts;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::uint64_t hash = samples.hash(i);
    if (hash == 0) continue;
    counts.training += predictor.seen_images()->was_trained_on(hash);
    counts.validation += predictor.seen_images()->was_chosen_on(hash);
  }
  return counts;
}

DifferingImage differing_image(const Parts& parts, std::size_t i, const ModelAnswers& first,
                               const ModelAnswers& second) {
  const auto label = [&](const ModelAnswers& answers) {
    return answers.model.data.classes[static_cast<std::size_t>(answers.images[i].guess)];
  };
  const auto id = static_cast<std::size_t>(parts.set.samples.label(i));
  return {std::string(parts.set.samples.file_name(i)),
          parts.set.classes[id],
          label(first),
          label(second),
          first.images[i].confidence,
          second.images[i].confidence,
          {}};
}

// Thumbnails show the images as the first of the two models saw them.
ModelPair compare(const Parts& parts, const std::vector<ModelAnswers>& all, std::size_t first,
                  std::size_t second) {
  ModelPair pair{.first = first, .second = second, .answers = {}, .test = {}, .images = {}};
  for (std::size_t i = 0; i < parts.set.samples.size(); ++i) {
    const ImageAnswer &one = all[first].images[i], &other = all[second].images[i];
    if (one.guess < 0 || other.guess < 0) continue;
    pair.answers.add(one.is_right, other.is_right);
    if (one.is_right == other.is_right) continue;
    pair.images.push_back(differing_image(parts, i, all[first], all[second]));
    if (pair.images.size() <= kMaxThumbnails)
      pair.images.back().thumbnail = thumbnail_of(parts.set, i, all[first].pixels);
  }
  pair.test = mcnemar_test(pair.answers);
  return pair;
}

std::string answers_name(std::size_t model, std::size_t num_models) {
  return num_models == 1 ? "answers.csv" : formatted("answers-%zu.csv", model + 1);
}

// Writes all files under temporary names, and renames them when all are complete.
class OutputFiles {
 public:
  explicit OutputFiles(const fs::path& folder) : folder_(folder) {}

  DurableFile& begin(const std::string& name) {
    if (const fs::path parent = (folder_ / name).parent_path(); parent != folder_)
      make_folders(parent);
    files_.push_back(std::make_unique<DurableFile>(folder_ / name));
    return *files_.back();
  }
  void add(const std::string& name, const std::string& bytes) { begin(name).write(bytes); }

  // Puts all files in place, the last one last, and removes those left by an earlier evaluation.
  void commit(const OutputFolder& output) {
    std::vector<DurableFile> files;
    std::vector<fs::path> removed = earlier_files();
    for (const auto& file : files_) {
      std::erase(removed, file->final_path().lexically_relative(folder_));
      files.push_back(std::move(*file));
    }
    output.replace(std::move(files), removed);
  }

 private:
  // Files of an earlier evaluation whose names this one may not reuse: they depend on the number of
  // models or on the time.
  std::vector<fs::path> earlier_files() const {
    std::vector<fs::path> files;
    std::error_code failure;
    for (auto entry = fs::recursive_directory_iterator(folder_, failure);
         !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
      const std::string name = entry->path().filename().string();
      if (is_event_file_name(name) || name.starts_with("answers") ||
          name.starts_with("evaluation-") || name == "differences.csv")
        files.push_back(entry->path().lexically_relative(folder_));
    }
    return files;
  }

  const fs::path folder_;
  std::vector<std::unique_ptr<DurableFile>> files_;
};

void add_events(const EvaluationRecord& record, OutputFiles& files) {
  for (std::size_t i = 0; i < record.models.size(); ++i) {
    const EvaluatedModel& model = record.models[i];
    ValidationDetails details;
    details.confusion = model.figures.confusion();
    details.most_wrong = model.most_wrong;
    const std::string folder = record.models.size() == 1
                                   ? std::string(kTensorboardFolder)
                                   : formatted("%s/model-%zu", kTensorboardFolder, i + 1);
    files.add(folder + "/" + event_file_name(record.time),
              first_event(record.time) + options_event(record.options, record.time) +
                  scalars_event(evaluation_metrics(model), record.time, 0) +
                  pictures_event(details, model.data.classes, record.time, 0) +
                  end_event(/*succeeded=*/true, record.time));
  }
}

void add_reports(const EvaluationRecord& record, OutputFiles& files) {
  add_events(record, files);
  files.add("evaluation.csv", evaluation_csv(record));
  files.add("classes.csv", classes_csv(record));
  if (record.models.size() > 1) {
    files.add("differences.csv", differences_csv(record));
    for (std::size_t i = 0; i < record.models.size(); ++i)
      files.add(model_page_name(i), model_page_html(record, i));
  }
  files.add(kPageName, evaluation_html(record));
  files.add(kEvaluationFileName, evaluation_json(record));
}

// If a tracking server is configured, sends it one run with a step for each model.
void send_to_mlflow(const EvaluationRecord& record, const fs::path& folder, Log& log) {
  const std::optional<MlflowSettings> settings = mlflow_settings_of_environment();
  if (!settings) return;
  TextPairs params = record.options;
  std::vector<MlflowPoint> points;
  for (std::size_t i = 0; i < record.models.size(); ++i) {
    params.emplace_back(formatted("model %zu", i + 1), name_of(record.models[i]));
    for (const Metric& metric : evaluation_metrics(record.models[i]))
      points.push_back({metric.name, metric.value, static_cast<std::int64_t>(record.time * 1000),
                        static_cast<std::int64_t>(i + 1)});
  }
  MlflowSender sender(*settings, std::move(params), record.versions, log);
  sender.add(std::move(points));
  sender.end({.status = "FINISHED",
              .files = {folder / kPageName, folder / kEvaluationFileName},
              .model = {}});
  if (const std::string lost = sender.lost(); !lost.empty())
    log.warning("MLflow did not receive everything: " + lost + ".");
}

void log_model(const EvaluatedModel& model, Log& log) {
  const Evaluation& figures = model.figures;
  const Totals& totals = figures.totals();
  const Interval interval = top1_interval(totals);
  log.info("");
  log.info("model:     " + printable(name_of(model)));
  log.info(formatted("top-1:     %.2f %% of %s images (95 %% interval %.1f to %.1f %%)",
                     100 * totals.top1_accuracy(), grouped(totals.count).c_str(),
                     100 * interval.low, 100 * interval.high));
  if (figures.has_top_k())
    log.info(formatted("top-%d:     %.2f %%", figures.k(), 100 * totals.top5_accuracy()));
  log.info(formatted("macro:     recall %.2f %%, F1 %.3f", 100 * macro_recall(figures.classes()),
                     macro_f1(figures.classes())));
  log.info(formatted("calibration error: %.2f %%",
                     100 * expected_calibration_error(figures.calibration())));
  const auto rate = answer_rate_for(model.calibration.answers, 0.99);
  if (rate && !is_at_limit(model.calibration.temperature))
    log.info(formatted(
        "at 99 %% accuracy it answers %.1f %% of the images, with confidence %.3f or higher",
        100 * rate->share(), rate->threshold));
  for (const Finding& finding : evaluation_findings(model))
    if (finding.judged == Judged::kWarning) log.warning(finding.text);
}

void log_start(const Parts& parts, Log& log) {
  if (!parts.precision.warning.empty()) log.warning(parts.precision.warning);
  log.info("images:    " + grouped(static_cast<long long>(parts.set.samples.size())) + ", " +
           describe(parts.set.kind));
  for (const std::string& note : parts.set.notes) log.warning(note);
}

// Draws heat maps of the most confident mistakes: pictures in the folder, thumbnails for the page.
void explain_mistakes(Parts& parts, Predictor& predictor, ModelAnswers& answers, Log& log) {
  const std::vector<WrongImage> wrong = answers.model.figures.most_confidently_wrong();
  std::vector<ExplainedAnswer> mistakes;
  mistakes.reserve(wrong.size());
  for (const WrongImage& image : wrong)
    mistakes.push_back(
        {static_cast<std::size_t>(image.image), image.guess, static_cast<float>(image.confidence)});
  const Explained explained = parts.explanations->add(predictor, torch_device(parts.device),
                                                      answers.pixels, parts.set, mistakes);
  for (const std::string& note : explained.notes) log.warning(note);
  for (std::size_t i = 0; i < mistakes.size(); ++i) {
    const at::Tensor& map = explained.maps[i];
    answers.model.heat_maps.push_back(
        map.defined() ? thumbnail_of(parts.set, mistakes[i].image, answers.pixels, map)
                      : Thumbnail());
  }
}

// Evaluates one model after another, and writes a file of answers for each.
std::vector<ModelAnswers> ask_models(const EvaluateConfig& config, Parts& parts, OutputFiles& files,
                                     Log& log) {
  const std::size_t num_models = parts.predictors.size();
  long long num_done = 0;  // over all models
  ScoringProgress progress(static_cast<long long>(parts.set.samples.size() * num_models), log);
  std::vector<ModelAnswers> all;
  for (std::size_t i = 0; i < num_models; ++i) {
    Predictor& predictor = *parts.predictors[i];
    for (const std::string& note : predictor.notes()) log.warning(note);
    DurableFile& answers = files.begin(answers_name(i, num_models));
    const auto encoder = find_score_format(".csv")->encoder(
        {.labels = predictor.labels(), .top_k = 1, .true_labels = true});
    answers.write(encoder->begin());
    all.push_back(evaluate_model(config.trained_model_paths[i], predictor, parts.set, config,
                                 parts.device, log, [&](const Score& row) {
                                   answers.write(encoder->row(row));
                                   progress.show(++num_done);
                                 }));
    all.back().model.seen = count_seen(predictor, parts.set.samples);
    if (parts.explanations) explain_mistakes(parts, predictor, all.back(), log);
  }
  return all;
}

EvaluationRecord record_of(const EvaluateConfig& config, const Parts& parts,
                           std::vector<ModelAnswers> all) {
  const SampleTable& samples = parts.set.samples;
  EvaluationRecord record{.time = unix_seconds(),
                          .data_path = config.data_path,
                          .options = config.effective_options,
                          .versions = versions(parts.device.is_cuda),
                          .device = parts.device.description,
                          .precision = precision_name(parts.precision.precision),
                          .num_images = static_cast<long long>(samples.size()),
                          .models = {},
                          .pairs = {}};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = i + 1; j < all.size(); ++j)
      record.pairs.push_back(compare(parts, all, i, j));
  for (ModelAnswers& answers : all) record.models.push_back(std::move(answers.model));
  for (std::size_t i = 0; i < samples.size(); ++i) record.num_unlabeled += samples.label(i) < 0;
  return record;
}

}  // namespace

int run(const EvaluateConfig& config, Process& process) {
  Log& log = process.log;
  end_on_stop_signals();
  keep_freed_memory();
  Parts parts;
  open_parts(config, parts);
  const int threads = config.prediction.threads;
  use_compute_threads(threads > 0 ? threads : usable_cpus());
  set_tf32(parts.precision.precision);
  log_start(parts, log);
  OutputFiles files(config.output_path);
  const EvaluationRecord record = record_of(config, parts, ask_models(config, parts, files, log));
  add_reports(record, files);
  files.commit(*parts.output);
  if (parts.explanations) parts.explanations->commit();
  for (const EvaluatedModel& model : record.models) log_model(model, log);
  for (const ModelPair& pair : record.pairs) log.info(pair_finding(record, pair));
  send_to_mlflow(record, config.output_path, log);
  log.info("");
  log.info("Wrote '" + (fs::path(config.output_path) / kPageName).string() + "'" +
           (parts.explanations ? " and '" + config.explain + "'." : "."));
  return 0;
}

}  // namespace kiln
