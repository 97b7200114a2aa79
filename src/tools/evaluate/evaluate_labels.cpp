#include "tools/evaluate/evaluate_labels.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/dataset/image_source.h"
#include "predict/explanations.h"
#include "record/evaluation.h"
#include "record/label_scores.h"
#include "record/run_json.h"
#include "report/page/html.h"
#include "report/page/page.h"
#include "report/scores/score_formats.h"
#include "tools/evaluate/report_files.h"
#include "tools/score/score.h"
#include "tools/score/scoring_progress.h"

namespace kiln {
namespace {

constexpr std::size_t kNamed = 10, kMostWrong = 24;
constexpr const char* kPageName = "evaluation.html";

// What the evaluation found.
struct LabelResults {
  DataRecord data;
  ValidationDetails details;
  LabelMetrics told, at_one_half;
  std::int64_t images = 0, exact = 0;
  UnknownLabels unknown;
  long long num_bad = 0;
};

// Takes the model's answers for the images of a set.
class LabelEvaluator {
 public:
  // `row` gets the row of each image, in order.
  LabelEvaluator(const Predictor& predictor, const Dataset& set, const EvaluateConfig& config,
                 std::function<void(const Score&)> row, Log& log)
      : predictor_(predictor),
        set_(set),
        row_(std::move(row)),
        true_labels_(set, predictor.labels()),
        rule_({}, {}, predictor.calibration()),
        faults_(config.prediction.max_bad_images, log) {
    const std::vector<std::string>& labels = predictor.labels();
    for (const std::vector<int>& ids : set.label_sets) {
      std::vector<int>& own = label_sets_.emplace_back();
      for (const int id : ids)
        if (const auto found = std::ranges::find(labels, set.classes[static_cast<std::size_t>(id)]);
            found != labels.end())
          own.push_back(static_cast<int>(found - labels.begin()));
      std::ranges::sort(own);
    }
  }

  void add(const PredictedBatch& batch) {
    at::Tensor probabilities;
    if (batch.logits.defined()) probabilities = predictor_.probabilities(batch.logits).contiguous();
    for (const BatchImage& image : batch.images) {
      Score row;
      row.path = set_.samples.file_name(image.index);
      row.true_label = true_labels_.of(image.index);
      row.fault = image.fault;
      if (image.row) answer(image, row, batch.logits, probabilities);
      if (!row.fault.empty()) faults_.note(row.path, row.fault, row.best.empty());
      row_(row);
    }
    faults_.check(static_cast<long long>(set_.samples.size()));
  }

  LabelResults finish(const TransformSpec& pixels) const {
    faults_.require_any_good(static_cast<long long>(set_.samples.size()));
    if (labels_.empty())
      throw Error(ErrorCode::kInvalidDataset,
                  "None of the images has labels that the model knows, which are " +
                      quoted_names(predictor_.labels(), kNamed) + ".");
    LabelResults results;
    const LabelAnswers answers{logits_, labels_, label_sets_, predictor_.labels().size()};
    const std::vector<LabelCalibration>& labels = predictor_.calibration().labels;
    ToldLabels found = told_labels(answers, labels, kMostWrong);
    results.details.labels = std::move(found.scores);
    results.details.co_occurrence = std::move(found.co_occurrence);
    results.details.most_wrong = shown(found.told, pixels);
    results.details.missed = shown(found.missed, pixels);
    for (std::size_t c = 0; c < answers.num_classes; ++c)
      results.details.calibration.labels.push_back(
          with_answers(labels[c], ranked_answers(answers, c)));
    results.told = metrics_of(results.details.labels);
    results.at_one_half = metrics_of(answers);
    results.images = std::ssize(labels_);
    results.exact = exact_;
    results.unknown = true_labels_.unknown();
    results.num_bad = faults_.num_bad;
    results.data.is_multi_label = true;
    results.data.classes = predictor_.labels();
    results.data.eval_height = pixels.output.height;
    results.data.eval_width = pixels.output.width;
    return results;
  }

 private:
  void answer(const BatchImage& image, Score& row, const at::Tensor& logits,
              const at::Tensor& probabilities) {
    const std::size_t width = predictor_.labels().size(), at = *image.row * width;
    const float* shares = probabilities.const_data_ptr<float>() + at;
    const float* own = logits.const_data_ptr<float>() + at;
    if (!std::all_of(own, own + width, [](float logit) { return std::isfinite(logit); })) {
      row.fault = kNoNumberFault;
      return;
    }
    row.probabilities.assign(shares, shares + width);
    const auto likeliest = std::ranges::max_element(row.probabilities);
    row.best.push_back({static_cast<int>(likeliest - row.probabilities.begin()), *likeliest});
    row.told = rule_.told(row.probabilities);
    if (!true_labels_.is_known(image.index)) return;
    const int label = set_.samples.label(image.index);
    logits_.insert(logits_.end(), own, own + width);
    labels_.push_back(label);
    images_.push_back(image.index);
    exact_ += row.told == label_sets_[static_cast<std::size_t>(label)] ? 1 : 0;
  }

  // Of the evaluated images.
  static LabelCalibration with_answers(LabelCalibration label,
                                       const std::vector<LabelAnswer>& ranked) {
    label.answers = empty_answer_bins();
    for (const LabelAnswer& one : ranked)
      count_answer(label.probability(one.logit), one.is_there, label.answers);
    std::erase_if(label.answers, [](const AnswerBin& bin) { return bin.images == 0; });
    return label;
  }

  std::vector<JudgedImage> shown(const std::vector<LabelMistake>& mistakes,
                                 const TransformSpec& pixels) const {
    std::vector<JudgedImage> images;
    for (const auto& [image, label, confidence] : mistakes)
      images.push_back({std::string(set_.samples.file_name(images_[image])), label, label,
                        confidence, thumbnail_of(set_, images_[image], pixels)});
    return images;
  }

  const Predictor& predictor_;
  const Dataset& set_;
  const std::function<void(const Score&)> row_;
  const TrueLabels true_labels_;
  const LabelRule rule_;
  std::vector<std::vector<int>> label_sets_;  // of the set, with the model's class ids
  PredictionFaults faults_;
  std::vector<float> logits_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint32_t> images_;  // of the rows of logits
  std::int64_t exact_ = 0;
};

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json metrics_json(const LabelMetrics& metrics) {
  return {{"mean_average_precision", number(metrics.mean_average_precision)},
          {"micro_f1", number(metrics.micro_f1)},
          {"macro_f1", number(metrics.macro_f1)}};
}

Json class_json(const LabelResults& results, std::size_t c) {
  const LabelScore& score = results.details.labels[c];
  return {{"label", results.data.classes[c]},
          {"images", score.images},
          {"told", score.told},
          {"hits", score.hits},
          {"average_precision", number(score.average_precision)},
          {"precision", number(score.precision())},
          {"recall", number(score.recall())},
          {"f1", number(score.f1())},
          {"threshold", results.details.calibration.labels[c].threshold}};
}

std::string json_of(const EvaluateConfig& config, const Predictor& predictor,
                    const LabelResults& results) {
  Json model = {{"path", config.trained_model_paths.front()},
                {"network", predictor.spec().model_name},
                {"task", "multi-label"},
                {"images", results.images},
                {"unknown", results.unknown.num_images},
                {"bad_images", results.num_bad},
                {"exact_match", share_of(results.exact, results.images)}};
  model.update(metrics_json(results.told));
  model["at_one_half"] = metrics_json(results.at_one_half);
  model["classes"] = Json::array();
  for (std::size_t c = 0; c < results.data.classes.size(); ++c)
    model["classes"].push_back(class_json(results, c));
  return json_text({{"data_path", config.data_path}, {"models", Json::array({model})}}, 2) + "\n";
}

std::string csv_of(const LabelResults& results) {
  std::string text = "label,images,told,hits,average_precision,precision,recall,f1,threshold\r\n";
  for (std::size_t c = 0; c < results.data.classes.size(); ++c) {
    std::string line;
    const Json row = class_json(results, c);
    for (const Json& value : row)
      line += (line.empty() ? "" : ",") + (value.is_string() ? csv_field(value.get<std::string>())
                                           : value.is_null() ? std::string()
                                                             : value.dump());
    text += line + "\r\n";
  }
  return text;
}

std::string page_of(const EvaluateConfig& config, const Predictor& predictor,
                    const LabelResults& results) {
  const double chance = average_precision_by_chance(results.details.labels, results.images);
  const std::string heading = predictor.spec().model_name + " on " + config.data_path;
  const Finding verdict{Judged::kNote, "Of " + plural(results.images, "image", "images") +
                                           ", the mean average precision is " +
                                           percent(results.told.mean_average_precision) +
                                           "; a random order gets " + percent(chance) + "."};
  const std::string tiles =
      label_tiles(results.told, "") +
      accuracy_tile({"exact-match", "Exact match", share_of(results.exact, results.images),
                     wilson_interval(results.exact, results.images)});
  return page_html(heading, header_html(element("bdi", escaped(heading))),
                   section("verdict", "How good is it?",
                           verdict_line(verdict) + element("dl class=\"tiles\"", "\n" + tiles)) +
                       labels_html(results.data, results.details, /*chosen_here=*/false));
}

void log_results(const LabelResults& results, Log& log) {
  log.info("");
  log.info(formatted("mean average precision: %.2f %%", 100 * results.told.mean_average_precision));
  log.info(formatted(
      "F1 at the model's thresholds: micro %.3f, macro %.3f; exact match %.2f %% of %s",
      results.told.micro_f1, results.told.macro_f1, 100 * share_of(results.exact, results.images),
      plural(results.images, "image", "images").c_str()));
  if (results.unknown.num_images > 0)
    log.warning(plural(results.unknown.num_images, "image has", "images have") +
                " a label that the model does not know: " +
                quoted_names(results.unknown.names, kNamed) + ". Such images are left out.");
}

}  // namespace

void evaluate_labels(const EvaluateConfig& config, const Inference& inference, Predictor& predictor,
                     Dataset& set, const OutputFolder& output, Log& log) {
  for (const std::string& note : predictor.notes()) log.warning(note);
  OutputFiles files(config.output_path);
  DurableFile& answers = files.begin("answers.csv");
  const auto encoder = find_score_format(".csv")->encoder({.labels = predictor.labels(),
                                                           .all_classes = true,
                                                           .true_labels = true,
                                                           .is_multi_label = true});
  answers.write(encoder->begin());
  ScoringProgress progress(static_cast<long long>(set.samples.size()), log);
  long long num_done = 0;
  LabelEvaluator evaluator(
      predictor, set, config,
      [&](const Score& row) {
        answers.write(encoder->row(row));
        progress.show(++num_done);
      },
      log);
  Predictions predictions(predictor, inference, log);
  predictions.for_each(set, [&](const PredictedBatch& batch) { evaluator.add(batch); });
  const LabelResults results = evaluator.finish(predictions.pixels());
  files.add("classes.csv", csv_of(results));
  files.add(kPageName, page_of(config, predictor, results));
  files.add(kEvaluationFileName, json_of(config, predictor, results));
  files.commit(output);
  log_results(results, log);
  log.info("");
  log.info("Wrote '" + (std::filesystem::path(config.output_path) / kPageName).string() + "'.");
}

}  // namespace kiln
