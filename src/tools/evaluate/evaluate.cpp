#include <ATen/TensorOperators.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
#include "predict/explanations.h"
#include "predict/inference.h"
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
  TransformSpec pixels;  // how the model saw them
};

constexpr std::size_t kMostWrong = 24, kNamed = 10, kMaxThumbnails = 24;
constexpr const char* kPageName = "evaluation.html";
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
  return std::count_if(samples.begin(), samples.end(),
                       [](const Sample& item) { return item.label < 0; });
}

DataRecord data_of(const Predictor& predictor, const TransformSpec& pixels) {
  DataRecord data;
  data.classes = predictor.labels();
  data.eval_height = pixels.output.height;
  data.eval_width = pixels.output.width;
  return data;
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

using RowWriter = std::function<void(const Score&)>;

// Takes a model's answers for the images of a set. Throws Error kInvalidDataset if the set has no
// label that the model knows, if no labeled image can be decoded, or if there are more bad images
// than allowed.
class Evaluator {
 public:
  Evaluator(const Predictor& predictor, const Dataset& set, const EvaluateConfig& config, Log& log)
      : predictor_(predictor),
        set_(set),
        true_labels_(set, predictor.labels()),
        ids_(class_ids(set, predictor.labels())),
        faults_(config.prediction.max_bad_images, log) {
    if (const std::string fault =
            fault_of_numbers(set, predictor.labels(), config.prediction.records.first_label);
        !fault.empty())
      set.fail(fault);
    if (std::ranges::any_of(ids_, [](int id) { return id >= 0; })) return;
    throw Error(
        ErrorCode::kInvalidDataset,
        "Images '" + config.data_path + "': " +
            (set_.classes.empty() ? "they have no labels"
                                  : "their classes are " + quoted_names(set_.classes, kNamed)) +
            ", but the model knows " + quoted_names(predictor_.labels(), kNamed) +
            ". Evaluation needs labels: put the images into folders named after the "
            "model's classes, or use `kiln score`.");
  }
  virtual ~Evaluator() = default;
  // `path` is the model's. Call it after the last batch.
  virtual ModelAnswers finish(const std::string& path, const TransformSpec& pixels) = 0;

  // Gives `write` the row of each image, in order.
  void add(const PredictedBatch& batch, const RowWriter& write) {
    if (batch.logits.defined()) take(batch.logits);
    for (const BatchImage& image : batch.images) {
      Score row;
      row.path = set_.samples.file_name(image.index);
      row.true_label = true_labels_.of(image.index);
      row.fault = image.fault;
      bool is_bad = true;
      if (image.row) {
        is_bad = !answer(image.index, static_cast<std::int64_t>(*image.row), row);
        if (is_bad) row.fault = kNoNumberFault;
      }
      if (!row.fault.empty()) {
        faults_.note(row.path, row.fault, is_bad);
        records_.push_back({"evaluation", row.path, row.fault, !is_bad});
      }
      write(row);
    }
    faults_.check(static_cast<long long>(set_.samples.size()));
  }

 protected:
  virtual void take(const at::Tensor& logits) = 0;
  // Completes the row of image `i` from row `at` of the logits; false: they are no numbers.
  virtual bool answer(std::uint32_t i, std::int64_t at, Score& row) = 0;
  // Everything but the metrics.
  EvaluatedModel model_of(const std::string& path, const TransformSpec& pixels,
                          std::int64_t num_judged, const Evaluation& figures) {
    faults_.require_any_good(static_cast<long long>(set_.samples.size()));
    if (num_judged == 0)
      throw Error(ErrorCode::kInvalidDataset,
                  "None of the images with a known label could be classified.");
    UnknownLabels unknown = true_labels_.unknown();
    return {.path = path,
            .network = predictor_.spec().model_name,
            .data = data_of(predictor_, pixels),
            .figures = figures,
            .num_unlabeled = num_unlabeled(set_.samples),
            .num_unknown = unknown.num_images,
            .unknown_labels = std::move(unknown.names),
            .seen = count_seen(predictor_, set_.samples),
            .faults = std::move(records_),
            .num_bad = faults_.num_bad};
  }

  const Predictor& predictor_;
  const Dataset& set_;
  const TrueLabels true_labels_;
  const std::vector<int> ids_;  // class_ids()
  PredictionFaults faults_;
  std::vector<ImageFaultRecord> records_;
};

class ModelEvaluator final : public Evaluator {
 public:
  ModelEvaluator(const Predictor& predictor, const Dataset& set, const EvaluateConfig& config,
                 Log& log)
      : Evaluator(predictor, set, config, log),
        figures_(static_cast<int>(predictor.labels().size()), config.top_k, kMostWrong),
        answers_(set.samples.size(), Prediction{.predicted = -1}) {}

  ModelAnswers finish(const std::string& path, const TransformSpec& pixels) override {
    EvaluatedModel model = model_of(path, pixels, figures_.totals().count, figures_);
    model.calibration.temperature = predictor_.calibration().temperature;
    model.calibration.answers = figures_.answers();
    std::erase_if(model.calibration.answers, [](const AnswerBin& bin) { return bin.images == 0; });
    for (const WrongImage& wrong : figures_.most_confidently_wrong()) {
      const auto i = static_cast<std::size_t>(wrong.image);
      model.most_wrong.push_back({std::string(set_.samples.file_name(i)), wrong.truth, wrong.guess,
                                  wrong.confidence, thumbnail_of(set_, i, pixels)});
    }
    return {std::move(model), std::move(answers_), pixels};
  }

 private:
  void take(const at::Tensor& logits) override {
    probabilities_ = predictor_.rule().probabilities(logits, /*is_raw=*/false);
    top_ = std::get<1>(at::topk(probabilities_, figures_.k(), 1)).to(at::kInt).contiguous();
  }

  bool answer(std::uint32_t i, std::int64_t at, Score& row) override {
    const at::Tensor probabilities = probabilities_[at], ids = top_[at];
    const std::span<const float> shares(probabilities.const_data_ptr<float>(),
                                        predictor_.labels().size());
    const std::span<const std::int32_t> top(ids.const_data_ptr<std::int32_t>(),
                                            static_cast<std::size_t>(figures_.k()));
    const float confidence = shares[top[0]];
    if (!std::isfinite(confidence)) return false;
    row.best.push_back({top[0], confidence});
    const int label = set_.samples.label(i);
    const int truth = label < 0 ? -1 : ids_[label];
    if (truth < 0) return true;
    figures_.add({i, truth, top, shares});
    answers_[i] = {.sample = i, .label = truth, .predicted = top[0], .confidence = confidence};
    return true;
  }

  Evaluation figures_;
  std::vector<Prediction> answers_;
  at::Tensor probabilities_, top_;  // of the batch
};

// The same with several labels an image.
class LabelEvaluator final : public Evaluator {
 public:
  LabelEvaluator(const Predictor& predictor, const Dataset& set, const EvaluateConfig& config,
                 Log& log)
      : Evaluator(predictor, set, config, log),
        thresholds_(predictor.rule().thresholds({}, {})),
        sets_(set.labels.sets) {
    for (std::vector<int>& ids : sets_) {
      for (int& id : ids) id = ids_[static_cast<std::size_t>(id)];
      std::ranges::sort(ids);
    }
  }

  ModelAnswers finish(const std::string& path, const TransformSpec& pixels) override {
    ModelAnswers all{model_of(path, pixels, std::ssize(labels_), Evaluation(0, 0, 0)), {}, pixels};
    const LabelAnswers answers{logits_, labels_, sets_, predictor_.labels().size()};
    LabelResults results = label_results(answers, predictor_.calibration(), predictor_.labels(),
                                         [&](const LabelMistake& mistake) -> JudgedImage {
                                           const std::uint32_t sample = images_[mistake.image];
                                           return {std::string(set_.samples.file_name(sample)),
                                                   mistake.label, mistake.label, mistake.confidence,
                                                   thumbnail_of(set_, sample, pixels)};
                                         });
    all.model.label_scores = std::move(results.scores);
    all.model.thresholds = thresholds_;
    all.model.details = std::move(results.details);
    all.model.details.figures.push_back(
        {"exact_match", "exact match", "", share_of(num_exact_, std::ssize(labels_))});
    all.model.num_labeled = std::ssize(labels_);
    return all;
  }

 private:
  void take(const at::Tensor& logits) override {
    logits_of_batch_ = logits;
    probabilities_ = predictor_.rule().probabilities(logits, /*is_raw=*/false).contiguous();
  }

  bool answer(std::uint32_t i, std::int64_t at, Score& row) override {
    const auto width = static_cast<std::int64_t>(predictor_.labels().size());
    const float* shares = probabilities_.const_data_ptr<float>() + at * width;
    const float* own = logits_of_batch_.const_data_ptr<float>() + at * width;
    if (!std::all_of(own, own + width, [](float logit) { return std::isfinite(logit); }))
      return false;
    row.probabilities.assign(shares, shares + width);
    const auto likeliest = std::ranges::max_element(row.probabilities);
    row.best.push_back({static_cast<int>(likeliest - row.probabilities.begin()), *likeliest});
    predictor_.rule().decide(thresholds_, row.probabilities, row);
    if (!true_labels_.is_known(i)) return true;
    labels_.push_back(set_.samples.label(i));
    logits_.insert(logits_.end(), own, own + width);
    images_.push_back(i);
    num_exact_ += row.labels == sets_[static_cast<std::size_t>(labels_.back())] ? 1 : 0;
    return true;
  }

  const std::vector<double> thresholds_;
  std::vector<std::vector<int>> sets_;  // of the set, with the model's class ids
  std::vector<float> logits_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint32_t> images_;  // of the rows of logits
  std::int64_t num_exact_ = 0;
  at::Tensor logits_of_batch_, probabilities_;
};

std::unique_ptr<Evaluator> evaluator_of(const Predictor& predictor, const Dataset& set,
                                        const EvaluateConfig& config, Log& log) {
  if (predictor.spec().task == TaskKind::kMultiLabel)
    return std::make_unique<LabelEvaluator>(predictor, set, config, log);
  return std::make_unique<ModelEvaluator>(predictor, set, config, log);
}

// What the command reads and writes.
struct Parts {
  explicit Parts(const EvaluateConfig& config) : inference(config.prediction) {}

  const Inference inference;
  std::vector<Predictor> predictors;
  Dataset set;
  std::optional<OutputFolder> output;
  std::optional<ExplanationFolder> explanations;
};

// Throws all problems together.
void open_parts(const EvaluateConfig& config, Parts& parts) {
  Problems problems;
  const std::string one_label = config.trained_model_paths.size() > 1    ? "A comparison of models"
                                : !config.explain.empty()                ? "--explain"
                                : config.top_k != EvaluateConfig().top_k ? "--top-k"
                                                                         : "";
  for (const std::string& path : config.trained_model_paths)
    problems.collect([&] {
      parts.predictors.push_back(parts.inference.open(path));
      parts.predictors.back().rule().require_one_label(one_label);
    });
  problems.collect([&] {
    RecordOptions records = config.prediction.records;
    if (!parts.predictors.empty())
      records.task =
          task_of_labels(parts.predictors.front().spec().task, parts.predictors.front().labels());
    parts.set = read_every_image(config.data_path, "Images", records);
    report_unused(records, parts.set);
  });
  problems.collect(
      [&] { parts.output.emplace(open_report_folder(config.output_path, kEvaluationFileName)); });
  if (!config.explain.empty())
    problems.collect(
        [&] { parts.explanations.emplace(config.explain, config.trained_model_paths.size()); });
  problems.throw_if_any();
}

DifferingImage differing_image(const Parts& parts, std::size_t i, const ModelAnswers& first,
                               const ModelAnswers& second) {
  const auto label = [&](const ModelAnswers& answers) {
    return answers.model.data.classes[answers.images[i].predicted];
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
  ModelPair pair{.first = first, .second = second};
  for (std::size_t i = 0; i < parts.set.samples.size(); ++i) {
    const Prediction &one = all[first].images[i], &other = all[second].images[i];
    if (one.predicted < 0 || other.predicted < 0) continue;
    const bool is_right = one.predicted == one.label, other_is = other.predicted == other.label;
    pair.answers.add(is_right, other_is);
    if (is_right == other_is) continue;
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

// Whether an evaluation writes files of this name for some number of models: answers-2.csv. Others
// that begin like it are a person's, such as answers-of-june.csv.
bool is_own_name(std::string_view name) {
  if (name == "answers.csv" || name == "evaluation.csv" || name == "classes.csv" ||
      name == "differences.csv")
    return true;
  constexpr std::pair<std::string_view, std::string_view> kNumbered[] = {{"answers-", ".csv"},
                                                                         {"evaluation-", ".html"}};
  for (const auto& [stem, end] : kNumbered) {
    if (name.size() <= stem.size() + end.size() || !name.starts_with(stem) || !name.ends_with(end))
      continue;
    name.remove_prefix(stem.size());
    name.remove_suffix(end.size());
    return name.find_first_not_of("0123456789") == name.npos;
  }
  return false;
}

// Writes all files under temporary names, and renames them when all are complete.
class OutputFiles {
 public:
  explicit OutputFiles(const fs::path& folder) : folder_(folder) {}

  DurableFile& begin(const std::string& name) {
    if (const fs::path parent = (folder_ / name).parent_path(); parent != folder_)
      make_folders(parent);
    return files_.emplace_back(folder_ / name);
  }
  void add(const std::string& name, const std::string& bytes) { begin(name).write(bytes); }

  // Puts all files in place, the last one last, and removes those left by an earlier evaluation.
  void commit(const OutputFolder& output) {
    std::vector<DurableFile> files(std::move_iterator(files_.begin()),
                                   std::move_iterator(files_.end()));
    output.replace(std::move(files), earlier_files());
  }

 private:
  // Files of an earlier evaluation whose names this one may not reuse: they depend on the number of
  // models or on the time: at the top, and events in their folder.
  std::vector<fs::path> earlier_files() const {
    std::vector<fs::path> files;
    std::error_code failure;
    for (auto entry = fs::recursive_directory_iterator(folder_, failure);
         !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
      const fs::path own = entry->path().lexically_relative(folder_);
      const std::string name = own.filename().string();
      if (own.has_parent_path() ? *own.begin() == kTensorboardFolder && is_event_file_name(name)
                                : is_own_name(name))
        files.push_back(own);
    }
    return files;
  }

  const fs::path folder_;
  std::deque<DurableFile> files_;
};

void add_events(const EvaluationRecord& record, OutputFiles& files) {
  for (std::size_t i = 0; i < record.models.size(); ++i) {
    const EvaluatedModel& model = record.models[i];
    ValidationDetails details = model.details;
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
  sender.end({.status = "FINISHED", .files = {folder / kPageName, folder / kEvaluationFileName}});
  if (const std::string lost = sender.lost(); !lost.empty())
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

void log_model(const EvaluatedModel& model, Log& log) {
  log.info("");
  log.info("model:     " + name_of(model));
  log_metrics(model, log);
  for (const Finding& finding : evaluation_findings(model))
    if (finding.judged == Judged::kWarning) log.warning(finding.text);
}

void log_start(const Parts& parts, Log& log) {
  if (!parts.inference.precision_warning().empty())
    log.warning(parts.inference.precision_warning());
  log.info("images:    " + grouped(parts.set.samples.size()) + ", " + describe(parts.set.kind));
  for (const std::string& note : parts.set.notes) log.warning(note);
  if (const std::string note = note_of_lost_contrast(parts.set); !note.empty()) log.warning(note);
}

// Draws heat maps of the most confident mistakes: pictures in the folder, thumbnails for the page.
void explain_mistakes(Parts& parts, Predictor& predictor, ModelAnswers& answers, Log& log) {
  const std::vector<WrongImage> wrong = answers.model.figures.most_confidently_wrong();
  std::vector<Prediction> mistakes;
  mistakes.reserve(wrong.size());
  for (const WrongImage& image : wrong)
    mistakes.push_back({.sample = static_cast<std::uint32_t>(image.image),
                        .label = image.truth,
                        .predicted = image.guess,
                        .confidence = static_cast<float>(image.confidence)});
  const Explained explained = parts.explanations->add(predictor, parts.inference.torch_device(),
                                                      answers.pixels, parts.set, mistakes);
  for (const std::string& note : explained.notes) log.warning(note);
  for (std::size_t i = 0; i < mistakes.size() && explained.num_drawn > 0; ++i) {
    const at::Tensor& map = explained.maps[i];
    answers.model.heat_maps.push_back(
        map.defined() ? thumbnail_of(parts.set, mistakes[i].sample, answers.pixels, map)
                      : Thumbnail());
  }
}

// Asks models about all images.
struct Asking {
  Parts& parts;
  OutputFiles& files;
  Log& log;
  ScoringProgress progress;
  long long num_done = 0;  // over all models

  // Writes a file of the answers. Returns how the model saw the images.
  TransformSpec ask(Predictor& predictor, const std::string& name, const ScoreColumns& columns,
                    Evaluator& evaluator) {
    DurableFile& answers = files.begin(name);
    const auto encoder = find_score_format(".csv")->encoder(columns);
    answers.write(encoder->begin());
    Predictions predictions(predictor, parts.inference, log);
    predictions.for_each(parts.set, [&](const PredictedBatch& batch) {
      evaluator.add(batch, [&](const Score& row) {
        answers.write(encoder->row(row));
        progress.show(++num_done);
      });
    });
    return predictions.pixels();
  }
};

// Evaluates one model after another, and writes a file of answers for each.
std::vector<ModelAnswers> ask_models(const EvaluateConfig& config, Parts& parts, OutputFiles& files,
                                     Log& log) {
  const std::size_t num_models = parts.predictors.size();
  Asking asking{
      parts, files, log, {static_cast<long long>(parts.set.samples.size() * num_models), log}};
  std::vector<ModelAnswers> all;
  for (std::size_t i = 0; i < num_models; ++i) {
    Predictor& predictor = parts.predictors[i];
    for (const std::string& note : predictor.notes()) log.warning(note);
    ScoreColumns columns{.labels = predictor.labels(), .top_k = 1, .true_labels = true};
    predictor.rule().fit_columns(columns);
    const std::unique_ptr<Evaluator> evaluator = evaluator_of(predictor, parts.set, config, log);
    const TransformSpec pixels =
        asking.ask(predictor, answers_name(i, num_models), columns, *evaluator);
    all.push_back(evaluator->finish(config.trained_model_paths[i], pixels));
    if (parts.explanations) explain_mistakes(parts, predictor, all.back(), log);
  }
  return all;
}

EvaluationRecord record_of(const EvaluateConfig& config, const Parts& parts,
                           std::vector<ModelAnswers> all) {
  const SampleTable& samples = parts.set.samples;
  EvaluationRecord record{.time = unix_seconds(),
                          .data_path = config.data_path,
                          .options = config.settings.texts(),
                          .versions = versions(parts.inference.device().is_cuda),
                          .device = parts.inference.device().description,
                          .precision = precision_name(parts.inference.precision()),
                          .num_images = static_cast<long long>(samples.size()),
                          .num_unlabeled = num_unlabeled(samples)};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = i + 1; j < all.size(); ++j)
      record.pairs.push_back(compare(parts, all, i, j));
  std::vector<std::string> doubts;
  if (std::string note = note_of_contradictions(parts.set, hashes_of(samples)); !note.empty())
    doubts.push_back(std::move(note));
  for (ModelAnswers& answers : all)
    record.models.emplace_back(std::move(answers.model)).doubts = doubts;
  return record;
}

}  // namespace

int run(const EvaluateConfig& config, Process& process) {
  Log& log = process.log;
  end_on_stop_signals();
  Parts parts(config);
  open_parts(config, parts);
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
