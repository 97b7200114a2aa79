#include "tools/evaluate/evaluate_labels.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
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
#include "tools/score/scoring_progress.h"

namespace kiln {
namespace {

constexpr std::size_t kNamed = 10;
constexpr const char* kPageName = "evaluation.html";

// Takes the model's answers for the images of a set.
class LabelEvaluator {
 public:
  LabelEvaluator(const Predictor& predictor, const Dataset& set, const EvaluateConfig& config,
                 Log& log)
      : predictor_(predictor),
        set_(set),
        true_labels_(set, predictor.labels()),
        thresholds_(predictor.rule().thresholds({}, {})),
        faults_(config.prediction.max_bad_images, log) {
    const std::vector<std::string>& labels = predictor.labels();
    for (const std::vector<int>& ids : set.labels.sets) {
      std::vector<int>& own = sets_.emplace_back();
      for (const int id : ids)
        if (const auto found = std::ranges::find(labels, set.classes[static_cast<std::size_t>(id)]);
            found != labels.end())
          own.push_back(static_cast<int>(found - labels.begin()));
      std::ranges::sort(own);
    }
  }

  // Gives `write` the row of each image, in order.
  template <typename Write>
  void add(const PredictedBatch& batch, Write&& write) {
    at::Tensor probabilities;
    if (batch.logits.defined())
      probabilities = predictor_.rule().probabilities(batch.logits, false).contiguous();
    for (const BatchImage& image : batch.images) {
      Score row;
      row.path = set_.samples.file_name(image.index);
      row.true_label = true_labels_.of(image.index);
      row.fault = image.fault;
      if (image.row) answer(image, row, batch.logits, probabilities);
      if (!row.fault.empty()) faults_.note(row.path, row.fault, row.best.empty());
      write(row);
    }
    faults_.check(static_cast<long long>(set_.samples.size()));
  }

  LabelResults results(const TransformSpec& pixels) const {
    faults_.require_any_good(static_cast<long long>(set_.samples.size()));
    if (labels_.empty())
      throw Error(ErrorCode::kInvalidDataset,
                  "None of the images has labels that the model knows, which are " +
                      quoted_names(predictor_.labels(), kNamed) + ".");
    const LabelAnswers answers{logits_, labels_, sets_, predictor_.labels().size()};
    Calibration calibration = predictor_.calibration();
    for (std::size_t c = 0; c < answers.num_classes; ++c) {  // the answers of these images
      LabelCalibration& label = calibration.labels[c];
      label.answers = empty_answer_bins();
      for (const LabelAnswer& one : ranked_answers(answers, c))
        count_answer(label.probability(one.logit), one.is_there, label.answers);
      std::erase_if(label.answers, [](const AnswerBin& bin) { return bin.images == 0; });
    }
    const auto show = [&](const LabelMistake& mistake) -> JudgedImage {
      const std::uint32_t sample = images_[mistake.image];
      return {std::string(set_.samples.file_name(sample)), mistake.label, mistake.label,
              mistake.confidence, thumbnail_of(set_, sample, pixels)};
    };
    LabelResults results = label_results(answers, calibration, predictor_.labels(), show);
    results.details.figures.push_back(
        {"exact_match", "exact match", "exact", share_of(exact_, std::ssize(labels_)), true});
    return results;
  }

  std::int64_t num_images() const { return std::ssize(labels_); }
  std::int64_t num_exact() const { return exact_; }
  long long num_bad() const { return faults_.num_bad; }
  UnknownLabels unknown() const { return true_labels_.unknown(); }

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
    predictor_.rule().tell(thresholds_, row);
    if (!true_labels_.is_known(image.index)) return;
    const int label = set_.samples.label(image.index);
    logits_.insert(logits_.end(), own, own + width);
    labels_.push_back(label);
    images_.push_back(image.index);
    exact_ += row.told == sets_[static_cast<std::size_t>(label)] ? 1 : 0;
  }

  const Predictor& predictor_;
  const Dataset& set_;
  const TrueLabels true_labels_;
  const std::vector<double> thresholds_;
  std::vector<std::vector<int>> sets_;  // of the set, with the model's class ids
  PredictionFaults faults_;
  std::vector<float> logits_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint32_t> images_;  // of the rows of logits
  std::int64_t exact_ = 0;
};

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json class_json(const std::string& label, const LabelScore& score, double threshold) {
  return {{"label", label},
          {"images", score.images},
          {"told", score.told},
          {"hits", score.hits},
          {"average_precision", number(score.average_precision)},
          {"precision", number(score.precision())},
          {"recall", number(score.recall())},
          {"f1", number(score.f1())},
          {"threshold", threshold}};
}

std::string json_of(const EvaluateConfig& config, const Predictor& predictor,
                    const LabelEvaluator& evaluator, const LabelResults& results) {
  Json model = {{"path", config.trained_model_paths.front()},
                {"network", predictor.spec().model_name},
                {"task", "multi-label"},
                {"images", evaluator.num_images()},
                {"unknown", evaluator.unknown().num_images},
                {"bad_images", evaluator.num_bad()}};
  for (const Figure& figure : results.details.figures) model[figure.name] = number(figure.value);
  model["classes"] = Json::array();
  for (std::size_t c = 0; c < predictor.labels().size(); ++c)
    model["classes"].push_back(class_json(predictor.labels()[c], results.scores[c],
                                          predictor.calibration().labels[c].threshold));
  return json_text({{"data_path", config.data_path}, {"models", Json::array({model})}}, 2) + "\n";
}

std::string page_of(const EvaluateConfig& config, const Predictor& predictor,
                    const LabelEvaluator& evaluator, const LabelResults& results,
                    const TransformSpec& pixels) {
  DataRecord data;
  data.classes = predictor.labels();
  data.eval_height = pixels.output.height;
  data.eval_width = pixels.output.width;
  const std::int64_t images = evaluator.num_images();
  const std::string heading = predictor.spec().model_name + " on " + config.data_path;
  const Finding verdict{Judged::kNote, "Of " + plural(images, "image", "images") + ", the " +
                                           results.details.verdict.text};
  const std::string tiles =
      figure_tiles(results.details.figures, "") +
      accuracy_tile({"exact-match", "Exact match", share_of(evaluator.num_exact(), images),
                     wilson_interval(evaluator.num_exact(), images)});
  return page_html(heading, header_html(element("bdi", escaped(heading))),
                   section("verdict", "How good is it?",
                           verdict_line(verdict) + element("dl class=\"tiles\"", "\n" + tiles)) +
                       results_html(data, results.details));
}

void log_results(const LabelEvaluator& evaluator, const LabelResults& results, Log& log) {
  log.info("");
  for (const Figure& figure : results.details.figures)
    log.info(formatted("%s: %.2f %%", short_title(figure).c_str(), 100 * figure.value));
  if (const UnknownLabels unknown = evaluator.unknown(); unknown.num_images > 0)
    log.warning(plural(unknown.num_images, "image has", "images have") +
                " a label that the model does not know: " + quoted_names(unknown.names, kNamed) +
                ". Such images are left out.");
  log.info("");
}

}  // namespace

void evaluate_labels(const EvaluateConfig& config, const Inference& inference, Predictor& predictor,
                     Dataset& set, const OutputFolder& output, Log& log) {
  for (const std::string& note : predictor.notes()) log.warning(note);
  OutputFiles files(config.output_path);
  DurableFile& answers = files.begin("answers.csv");
  ScoreColumns columns{.labels = predictor.labels(), .true_labels = true};
  predictor.rule().fit_columns(columns);
  const auto encoder = find_score_format(".csv")->encoder(columns);
  answers.write(encoder->begin());
  ScoringProgress progress(static_cast<long long>(set.samples.size()), log);
  long long num_done = 0;
  LabelEvaluator evaluator(predictor, set, config, log);
  Predictions predictions(predictor, inference, log);
  predictions.for_each(set, [&](const PredictedBatch& batch) {
    evaluator.add(batch, [&](const Score& row) {
      answers.write(encoder->row(row));
      progress.show(++num_done);
    });
  });
  const LabelResults results = evaluator.results(predictions.pixels());
  files.add(kPageName, page_of(config, predictor, evaluator, results, predictions.pixels()));
  files.add(kEvaluationFileName, json_of(config, predictor, evaluator, results));
  files.commit(output);
  log_results(evaluator, results, log);
  log.info("Wrote '" + (std::filesystem::path(config.output_path) / kPageName).string() + "'.");
}

}  // namespace kiln
