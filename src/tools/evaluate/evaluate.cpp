#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/output_folder.h"
#include "base/system.h"
#include "base/text.h"
#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "data/dataset/image_source.h"
#include "data/split/groups.h"
#include "predict/job.h"
#include "predict/pictures.h"
#include "predict/shown_answers.h"
#include "record/evaluation.h"
#include "record/label_scores.h"
#include "record/run_json.h"
#include "record/run_summary.h"
#include "report/mlflow/mlflow_sink.h"
#include "report/page/page.h"
#include "report/scores/score_formats.h"
#include "report/sinks.h"
#include "run/inputs/image_sizes.h"
#include "run/process/versions.h"
#include "tools/commands.h"
#include "tools/report/report_folder.h"
#include "tools/score/scoring_progress.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

struct ModelAnswers {
  EvaluatedModel model;
  // By index in the set; `predicted` is -1 if the image is bad or has no label that the model
  // knows.
  std::vector<Prediction> images;
  std::vector<Prediction> mistakes;  // the surest, as the gallery begins with them
  TransformSpec pixels;              // how the model saw them
};

constexpr std::size_t kMostExplained = 24, kNamedClasses = 10, kMaxThumbnails = 100;
constexpr const char* kEvaluationPage = "evaluation.html";
constexpr int kBelowFloor = 4;  // the exit code
constexpr const char* kTensorboardFolder = "tensorboard";

// Returns the model's class id for each class of the set, or -1 for a class that the model does not
// know. Throws Error kInvalidDataset if images have a class that may be several of the model's.
std::vector<int> class_ids(const Dataset& set, const std::vector<std::string>& labels) {
  std::vector<int> ids;
  const std::vector<long long> counts = counts_by_class(set, set.classes.size());
  for (const std::string& name : set.classes) {
    const auto found = std::find(labels.begin(), labels.end(), name);
    if (found != labels.end() && counts[ids.size()] > 0 &&
        std::find(found + 1, labels.end(), name) != labels.end())
      set.fail("its images have the class '" + name +
               "', but several of the model's classes have this name. Rename those that have no "
               "images in its index_to_label.csv, or train it again.");
    ids.push_back(found == labels.end() ? -1 : static_cast<int>(found - labels.begin()));
  }
  return ids;
}

long long num_unlabeled(const SampleTable& samples) {
  return std::ranges::count_if(samples, [](const Sample& item) { return item.label < 0; });
}

// What a model answers for the images of a set, of one label or of several. Throws Error
// kInvalidDataset if the set has no label that the model knows, if no labeled image can be decoded,
// or if there are more bad images than allowed.
class EvaluatedAnswers {
 public:
  const AnswerPlan plan;

  EvaluatedAnswers(const Predictor& model, const Dataset& set, const EvaluateConfig& config,
                   Log& log)
      : plan{.thresholds = model.rule->thresholds({}, {}),
             .top_k = model.rule->has_several_labels
                          ? 1
                          : std::min(config.top_k, static_cast<int>(model.directory.labels.size())),
             .all_classes = true},
        model_(model),
        set_(set),
        draws_(!config.no_pictures),
        true_labels_(set, labels()),
        ids_(class_ids(set, labels())),
        faults_(config.prediction.max_bad_images, log),
        figures_(has_several() ? 0 : static_cast<int>(labels().size()), config.top_k),
        answers_(has_several() ? 0 : set.samples.size(), Prediction{.predicted = -1}),
        sets_(set.labels.sets) {
    require_labels(config);
    if (model.directory.seen_images) seen_.emplace();
    for (std::vector<int>& ids : sets_) {
      for (int& id : ids) id = ids_[static_cast<std::size_t>(id)];
      std::ranges::sort(ids);
    }
  }

  // Completes the rows of a batch.
  void add(AnsweredBatch& batch) {
    for (auto& [i, hash, at, row] : batch.images) {
      row.true_label = true_labels_.of(i);
      if (at && has_several())
        judge_labels(i, batch.outputs.logits[static_cast<std::int64_t>(*at)], row);
      else if (!row.best.empty())
        judge_label(i, row);
      if (!row.fault.empty()) {
        const bool is_bad = row.best.empty();
        faults_.add(row.path, row.fault, is_bad);
        records_.push_back({"evaluation", row.path, row.fault, !is_bad});
      }
      if (!seen_ || hash == 0) continue;
      seen_->training += model_.directory.seen_images->was_trained_on(hash);
      seen_->validation += model_.directory.seen_images->was_chosen_on(hash);
    }
    faults_.check(static_cast<long long>(set_.samples.size()));
  }

  // `path` is the model's. Call it after the last batch.
  ModelAnswers finish(const std::string& path, const TransformSpec& pixels) {
    faults_.require_any_good(static_cast<long long>(set_.samples.size()));
    if (figures_.totals().count == 0 && given_.empty())
      throw Error(ErrorCode::kInvalidDataset,
                  "None of the images with a known label could be classified.");
    UnknownLabels unknown = true_labels_.unknown();
    DataRecord data;
    data.classes = labels();
    data.eval_height = pixels.output.height;
    data.eval_width = pixels.output.width;
    EvaluatedModel model{.path = path,
                         .network = model_.directory.spec.model_name,
                         .data = std::move(data),
                         .figures = figures_,
                         .num_unlabeled = num_unlabeled(set_.samples),
                         .num_unknown = unknown.num_images,
                         .unknown_labels = std::move(unknown.names),
                         .seen = seen_,
                         .faults = std::move(records_),
                         .num_bad = faults_.num_bad};
    std::vector<Prediction> mistakes;
    if (has_several())
      add_several(model, pixels);
    else
      mistakes = add_one(model, pixels);
    return {std::move(model), std::move(answers_), std::move(mistakes), pixels};
  }

 private:
  bool has_several() const { return model_.rule->has_several_labels; }
  const std::vector<std::string>& labels() const { return model_.directory.labels; }

  void require_labels(const EvaluateConfig& config) const {
    if (const std::string fault =
            fault_of_numbers(set_, labels(), config.prediction.records.first_label);
        !fault.empty())
      set_.fail(fault);
    if (std::ranges::any_of(ids_, [](int id) { return id >= 0; })) return;
    throw Error(ErrorCode::kInvalidDataset,
                "Images '" + config.data_path + "': " +
                    (set_.classes.empty()
                         ? "they have no labels"
                         : "their classes are " + quoted_names(set_.classes, kNamedClasses)) +
                    ", but the model knows " + quoted_names(labels(), kNamedClasses) +
                    ". Evaluation needs labels: put the images into folders named after the "
                    "model's classes, or use `kiln score`.");
  }

  void judge_label(std::uint32_t i, const Score& row) {
    const std::int32_t label = set_.samples.label(i);
    const int truth = label < 0 ? -1 : ids_[static_cast<std::size_t>(label)];
    if (truth < 0) return;
    std::vector<std::int32_t> top;
    for (const RankedClass& one : row.best) top.push_back(one.id);
    figures_.add({truth, top, row.probabilities});
    if (row.alike) alike_.emplace_back(*row.alike, i);
    answers_[i] = prediction_of(row, i, truth);
  }
  void judge_labels(std::uint32_t i, const at::Tensor& logits, Score& row) {
    const auto* own = logits.const_data_ptr<float>();
    if (!std::all_of(own, own + logits.numel(), [](float logit) { return std::isfinite(logit); }))
      row = {.path = row.path, .true_label = row.true_label, .fault = kNoNumberFault};
    if (row.best.empty() || !true_labels_.is_known(i)) return;
    given_.push_back(set_.samples.label(i));
    logits_.insert(logits_.end(), own, own + logits.numel());
    images_.push_back(i);
    num_exact_ += row.labels == sets_[static_cast<std::size_t>(given_.back())] ? 1 : 0;
  }

  // Returns the surest mistakes.
  std::vector<Prediction> add_one(EvaluatedModel& model, const TransformSpec& pixels) const {
    model.calibration.temperature = model_.directory.calibration.temperature;
    model.calibration.answers = figures_.answers();
    std::erase_if(model.calibration.answers, [](const AnswerBin& bin) { return bin.images == 0; });
    model.details.confusion = figures_.confusion();
    std::vector<Prediction> judged, mistakes;
    std::ranges::copy_if(answers_, std::back_inserter(judged),
                         [](const Prediction& answer) { return answer.predicted >= 0; });
    std::vector<JudgedImage> shown;
    for (const std::size_t i : answers_to_show(judged)) {
      shown.push_back(judged_image(set_, judged[i], pixels, draws_ && shown.size() < kMostDrawn));
      if (judged[i].predicted != judged[i].label && mistakes.size() < kMostExplained)
        mistakes.push_back(judged[i]);
    }
    model.details.pictures.push_back(gallery_of(std::move(shown), /*is_calibrated=*/true));
    if (alike_.empty()) return mistakes;
    std::vector<std::pair<float, std::uint32_t>> least = alike_;
    std::ranges::sort(least);
    least.resize(std::min(least.size(), kLeastAlike));
    PictureList unlike = unlike_gallery(model_.likeness->separation);
    for (const auto& [alike, i] : least)
      unlike.images.push_back(judged_image(set_, answers_[i], pixels, draws_));
    model.details.pictures.push_back(std::move(unlike));
    return mistakes;
  }
  void add_several(EvaluatedModel& model, const TransformSpec& pixels) const {
    const auto show = [&](const LabelMistake& mistake) {
      return judged_image(set_, prediction_of(mistake, images_[mistake.image]), pixels, draws_);
    };
    LabelResults results = label_results({logits_, given_, sets_, labels().size()},
                                         model_.directory.calibration, labels(), show);
    model.num_labeled = std::ssize(given_);
    model.label_scores = std::move(results.scores);
    model.thresholds = plan.thresholds;
    model.details = std::move(results.details);
    model.details.figures.push_back(
        {"exact_match", "exact match", "", share_of(num_exact_, model.num_labeled)});
  }

  const Predictor& model_;
  const Dataset& set_;
  const bool draws_;
  const TrueLabels true_labels_;
  const std::vector<int> ids_;  // class_ids()
  PredictionFaults faults_;
  Evaluation figures_;  // of one label
  std::vector<Prediction> answers_;
  std::vector<std::pair<float, std::uint32_t>> alike_;  // of images that are judged
  std::vector<std::vector<int>> sets_;  // of several labels, with the model's class ids
  std::vector<float> logits_;           // of the images with known labels, as are the next two
  std::vector<std::int32_t> given_;
  std::vector<std::uint32_t> images_;
  std::int64_t num_exact_ = 0;
  std::vector<ImageFaultRecord> records_;
  std::optional<SeenCounts> seen_;
};

// Thumbnails show the images as the first of the two models saw them.
ModelPair compare(const Dataset& set, const std::vector<ModelAnswers>& all, std::size_t first,
                  std::size_t second, bool draws) {
  ModelPair pair{.first = first, .second = second};
  const auto label = [&](std::size_t model, const Prediction& answer) {
    return all[model].model.data.classes[static_cast<std::size_t>(answer.predicted)];
  };
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const Prediction &one = all[first].images[i], &other = all[second].images[i];
    if (one.predicted < 0 || other.predicted < 0) continue;
    const bool is_right = one.predicted == one.label, other_is = other.predicted == other.label;
    pair.answers.add(is_right, other_is);
    if (is_right == other_is) continue;
    pair.images.push_back({std::string(set.samples.file_name(i)),
                           set.classes[static_cast<std::size_t>(set.samples.label(i))],
                           label(first, one),
                           label(second, other),
                           one.confidence,
                           other.confidence,
                           {}});
    if (draws && pair.images.size() <= kMaxThumbnails)
      pair.images.back().thumbnail = thumbnail_of(set, i, all[first].pixels);
  }
  pair.test = mcnemar_test(pair.answers);
  return pair;
}

// Files of an earlier evaluation whose names this one may not reuse: they depend on the number of
// models or on the time: at the top, and events in their folder. Others that begin like them are a
// person's, such as answers-of-june.csv.
std::vector<fs::path> earlier_files(const fs::path& folder) {
  static const std::regex kOwn(
      "(answers(-[0-9]+)?|evaluation|classes|differences)\\.csv|evaluation-[0-9]+\\.html");
  std::vector<fs::path> files;
  std::error_code failure;
  for (auto entry = fs::recursive_directory_iterator(folder, failure);
       !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    const fs::path own = entry->path().lexically_relative(folder);
    const std::string name = own.filename().string();
    if (own.has_parent_path() ? *own.begin() == kTensorboardFolder && is_event_file_name(name)
                              : std::regex_match(name, kOwn))
      files.push_back(own);
  }
  return files;
}

// Writes the reports under temporary names. The last one makes the others valid.
void add_reports(const EvaluationRecord& record, const fs::path& folder,
                 std::vector<DurableFile>& files) {
  const auto add = [&](const std::string& name, const std::string& bytes) {
    const fs::path path = folder / name;
    if (path.parent_path() != folder) make_folders(path.parent_path());
    files.push_back(complete_file(path, bytes));
  };
  const std::size_t num_models = record.models.size();
  for (std::size_t i = 0; i < num_models; ++i) {
    const EvaluatedModel& model = record.models[i];
    add(std::string(kTensorboardFolder) + (num_models == 1 ? "" : formatted("/model-%zu", i + 1)) +
            "/" + event_file_name(record.time),
        first_event(record.time) + options_event(record.options, record.time) +
            scalars_event(evaluation_metrics(model), record.time, 0) +
            pictures_event(model.details, model.data.classes, record.time, 0) +
            end_event(/*succeeded=*/true, record.time));
  }
  add("evaluation.csv", evaluation_csv(record));
  add("classes.csv", classes_csv(record));
  if (num_models > 1) {
    add("differences.csv", differences_csv(record));
    for (std::size_t i = 0; i < num_models; ++i)
      add(model_page_name(i), model_page_html(record, i, folder / model_page_name(i)));
  }
  add(kEvaluationPage, evaluation_html(record, folder / kEvaluationPage));
  add(kEvaluationFileName, evaluation_json(record));
}

// If a tracking server is configured, sends it one run with a step for each model.
void send_to_mlflow(const EvaluationRecord& record, const EvaluateConfig& config, Log& log) {
  const fs::path folder = config.output_path;
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
  MlflowSink sink(*settings, {folder / kEvaluationPage, folder / kEvaluationFileName},
                  config.mlflow_pictures, log);
  sink.begin(std::move(params), record.versions);
  sink.add(std::move(points));
  sink.finish("FINISHED");
  if (const std::string lost = sink.lost(); !lost.empty())
    log.warning("MLflow did not receive everything: " + lost + ".");
}

void log_metrics(const EvaluatedModel& model, Log& log) {
  if (model.has_several_labels()) {
    log.info("images judged: " + grouped(model.num_images()));
    for (const Figure& figure : model.details.figures)
      log.info(formatted("%s: %.2f %%", short_title(figure).c_str(), 100 * figure.value));
    return;
  }
  const Evaluation& figures = model.figures;
  const Totals& totals = figures.totals();
  const Interval interval = top1_interval(totals);
  log.info(formatted("top-1:     %.2f %% of %s (95 %% interval %.1f to %.1f %%)",
                     100 * totals.top1_accuracy(), plural(totals.count, "image", "images").c_str(),
                     100 * interval.low, 100 * interval.high));
  if (figures.has_top_k())
    log.info(formatted("top-%d:     %.2f %%", figures.k(), 100 * totals.top5_accuracy()));
  log.info(formatted("macro:     recall %.2f %%, F1 %.3f", 100 * macro_recall(figures.classes()),
                     macro_f1(figures.classes())));
  log.info(formatted("calibration error: %.2f %%",
                     100 * expected_calibration_error(figures.calibration())));
  const auto rate = answer_rate_for(model.calibration, 0.99);
  if (rate && !is_at_limit(model.calibration.temperature))
    log.info(formatted(
        "at 99 %% accuracy it answers %.1f %% of the images, with confidence %.3f or higher",
        100 * rate->share(), rate->threshold));
}

// Draws heat maps of the most confident mistakes: pictures in the folder, thumbnails for the page.
void explain_mistakes(PredictionJob& job, Predictor& model, ModelAnswers& answers) {
  const std::vector<at::Tensor> maps =
      job.explanations->add(model, answers.pixels, job.images, answers.mistakes, job.log);
  std::vector<JudgedImage>& shown = answers.model.details.pictures.front().images;
  for (std::size_t i = 0; i < answers.mistakes.size(); ++i)
    if (maps[i].defined())
      shown[i].heat_map =
          thumbnail_of(job.images, answers.mistakes[i].sample, answers.pixels, maps[i]);
}

// Evaluates one model after another, and writes a file of answers for each.
std::vector<ModelAnswers> ask_models(const EvaluateConfig& config, PredictionJob& job,
                                     std::vector<DurableFile>& files) {
  const std::size_t num_models = job.models.size();
  ScoringProgress progress(static_cast<long long>(job.images.samples.size() * num_models), job.log);
  long long num_done = 0;  // over all models
  std::vector<ModelAnswers> all;
  for (std::size_t i = 0; i < num_models; ++i) {
    Predictor& model = job.models[i];
    for (const std::string& note : model.notes) job.log.warning(note);
    EvaluatedAnswers evaluator(model, job.images, config, job.log);
    DurableFile& file =
        files.emplace_back(fs::path(config.output_path) /
                           (num_models == 1 ? "answers.csv" : formatted("answers-%zu.csv", i + 1)));
    const auto encoder = find_score_format(".csv")->encoder(
        model.rule->fitted({.labels = model.directory.labels,
                            .top_k = 1,
                            .true_labels = true,
                            .alike = model.likeness.has_value()}));
    file.write(encoder->begin());
    Predictions predictions(model, job, evaluator.plan);
    predictions.for_each(job.images, [&](AnsweredBatch& batch) {
      evaluator.add(batch);
      for (const AnsweredImage& image : batch.images) {
        file.write(encoder->row(image.score));
        progress.show(++num_done);
      }
    });
    all.push_back(evaluator.finish(config.trained_model_paths[i], predictions.pixels()));
    if (job.explanations) explain_mistakes(job, model, all.back());
  }
  return all;
}

EvaluationRecord record_of(const EvaluateConfig& config, const PredictionJob& job,
                           std::vector<ModelAnswers> all) {
  const SampleTable& samples = job.images.samples;
  EvaluationRecord record{.time = unix_seconds(),
                          .data_path = config.data_path,
                          .options = config.settings.texts(),
                          .versions = versions(job.device.is_cuda),
                          .device = job.device.description,
                          .precision = precision_name(job.precision.precision),
                          .num_images = static_cast<long long>(samples.size()),
                          .num_unlabeled = num_unlabeled(samples)};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = i + 1; j < all.size(); ++j)
      record.pairs.push_back(compare(job.images, all, i, j, !config.no_pictures));
  std::vector<std::string> doubts;
  if (std::string note = note_of_contradictions(job.images, hashes_of(samples)); !note.empty())
    doubts.push_back(std::move(note));
  for (ModelAnswers& answers : all)
    record.models.emplace_back(std::move(answers.model)).doubts = doubts;
  return record;
}

// Whether each model reaches each floor; warns of those that do not.
bool reaches_floors(const EvaluationRecord& record, const std::vector<MetricFloor>& floors,
                    Log& log) {
  bool reaches_all = true;
  for (const EvaluatedModel& model : record.models)
    for (const MetricFloor& floor : floors) {
      const std::optional<double> value = metric_of(model, floor.metric);
      if (value && *value >= floor.least) continue;
      reaches_all = false;
      log.warning(name_of(model) + " has " + floor.metric + " " +
                  (value ? percent(*value) : "unknown") + ", below --at-least " + floor.metric +
                  formatted("=%g.", floor.least));
    }
  return reaches_all;
}

}  // namespace

int run(const EvaluateConfig& config, Process& process) {
  Log& log = process.log;
  end_on_stop_signals();
  PredictionJob job(config.prediction, log);
  std::optional<OutputFolder> output;
  const std::string one_label = config.trained_model_paths.size() > 1    ? "A comparison of models"
                                : !config.explain.empty()                ? "--explain"
                                : config.top_k != EvaluateConfig().top_k ? "--top-k"
                                                                         : "";
  Problems problems;
  for (const std::string& path : config.trained_model_paths)
    problems.collect([&] { job.open_model(path, one_label); });
  problems.collect([&] { job.read_images({config.data_path}); });
  problems.collect(
      [&] { output.emplace(open_report_folder(config.output_path, kEvaluationFileName)); });
  if (!config.explain.empty())
    problems.collect(
        [&] { job.explanations.emplace(config.explain, config.trained_model_paths.size()); });
  problems.throw_if_any();
  job.warn_of_precision();
  log.info("images:    " + grouped(job.images.samples.size()) + ", " + describe(job.images.kind));
  for (const std::string& note : job.images.notes) log.warning(note);
  if (const std::string note = note_of_lost_contrast(job.images); !note.empty()) log.warning(note);
  std::vector<DurableFile> files;
  const EvaluationRecord record = record_of(config, job, ask_models(config, job, files));
  if (!config.no_pictures) warn_without_pictures(log);
  add_reports(record, config.output_path, files);
  output->replace(std::move(files), earlier_files(config.output_path));
  if (job.explanations) job.explanations->commit(log);
  for (const EvaluatedModel& model : record.models) {
    log.info("");
    log.info("model:     " + name_of(model));
    log_metrics(model, log);
    for (const Finding& finding : evaluation_findings(model))
      if (finding.judged == Judged::kWarning) log.warning(finding.text);
  }
  for (const ModelPair& pair : record.pairs) log.info(pair_finding(record, pair));
  send_to_mlflow(record, config, log);
  log.info("");
  log.info("Wrote '" + (fs::path(config.output_path) / kEvaluationPage).string() + "'.");
  if (config.json) std::fputs(evaluation_json(record).c_str(), stdout);
  return reaches_floors(record, config.at_least, log) ? 0 : kBelowFloor;
}

}  // namespace kiln
