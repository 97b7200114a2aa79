#include "record/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "record/run_json.h"

namespace kiln {

Evaluation::Evaluation(int num_classes, int k)
    : k_(std::min(k, num_classes)),
      classes_(static_cast<std::size_t>(num_classes)),
      confusion_(empty_matrix(num_classes)),
      answers_(empty_answer_bins()),
      bins_(classes_.size()),
      calibration_{} {
  for (std::size_t label = 0; label < classes_.size(); ++label) classes_[label].label = label;
}

void Evaluation::add(const PredictedImage& image) {
  const auto truth = static_cast<std::size_t>(image.truth);
  const auto k = static_cast<std::size_t>(k_);
  if (image.probabilities.size() != classes_.size() ||
      image.top.size() < std::max<std::size_t>(k, 1))
    throw InternalError("Evaluation::add: too few classes");
  const auto guess = static_cast<std::size_t>(image.top.front());
  if (truth >= classes_.size() || guess >= classes_.size())
    throw InternalError("Evaluation::add: a class out of range");
  const bool is_right = truth == guess;
  const double confidence = image.probabilities[guess];
  const auto first_k = image.top.first(k);
  totals_.count += 1;
  totals_.top1 += is_right ? 1 : 0;
  totals_.top5 += std::find(first_k.begin(), first_k.end(), image.truth) != first_k.end() ? 1 : 0;
  totals_.loss_sum -=
      std::log(std::max(image.probabilities[truth], std::numeric_limits<float>::min()));
  classes_[truth].images += 1;
  classes_[guess].guesses += 1;
  classes_[truth].hits += is_right ? 1 : 0;
  if (!confusion_.empty()) confusion_.at(image.truth, image.top.front()) += 1;
  count_answer(confidence, is_right, answers_);
  count_answer(confidence, is_right, bins_[guess]);
  const int bin = static_cast<int>(std::ceil(confidence * kNumCalibrationBins)) - 1;
  CalibrationBin& calibration = calibration_[std::clamp(bin, 0, kNumCalibrationBins - 1)];
  calibration.images += 1;
  calibration.right += is_right ? 1 : 0;
  calibration.confidence_sum += confidence;
}

double macro_recall(std::span<const ClassScore> classes) {
  return mean_of(classes, [](const ClassScore& score) { return score.recall(); });
}

double macro_f1(std::span<const ClassScore> classes) {
  return mean_of(classes, [](const ClassScore& score) { return score.f1(); });
}

double expected_calibration_error(std::span<const CalibrationBin> bins) {
  std::int64_t images = 0;
  double error = 0;  // sum over the bins of images * |accuracy - mean confidence|
  for (const CalibrationBin& bin : bins) {
    images += bin.images;
    error += std::abs(static_cast<double>(bin.right) - bin.confidence_sum);
  }
  return share_of(error, images);
}

AnswerRate answer_rate(std::span<const AnswerBin> bins, double threshold) {
  AnswerRate rate{threshold};
  for (auto bin = bins.rbegin(); bin != bins.rend(); ++bin) {
    rate.images += bin->images;
    if (bin->from < threshold) continue;
    rate.threshold = bin->from;
    rate.answered += bin->images;
    rate.right += bin->right;
  }
  return rate;
}

AnswerRate answer_rate(const Calibration& calibration, double threshold) {
  AnswerRate rate = answer_rate(calibration.answers, threshold);
  rate.out_of_fold = calibration.out_of_fold;
  return rate;
}

std::optional<AnswerRate> answer_rate_for(std::span<const AnswerBin> bins, double accuracy,
                                          bool out_of_fold) {
  AnswerRate rate{.images = answer_rate(bins, 0).images, .out_of_fold = out_of_fold};
  std::optional<AnswerRate> best;
  for (auto bin = bins.rbegin(); bin != bins.rend(); ++bin) {
    rate.threshold = bin->from;
    rate.answered += bin->images;
    rate.right += bin->right;
    if (bin->images > 0 && rate.interval().low >= accuracy) best = rate;
  }
  return best;
}

std::optional<AnswerRate> answer_rate_for(const Calibration& calibration, double accuracy) {
  return answer_rate_for(calibration.answers, accuracy, calibration.out_of_fold);
}

McNemarTest mcnemar_test(const PairedAnswers& answers) {
  constexpr std::int64_t kFew = 25;
  const std::int64_t differing = answers.only_first + answers.only_second;
  const auto n = static_cast<double>(differing);
  if (differing >= kFew) {
    const auto distance = static_cast<double>(std::abs(answers.only_first - answers.only_second));
    const double statistic = std::pow(std::max(0.0, distance - 1), 2) / n;
    return {false, statistic, std::erfc(std::sqrt(statistic / 2))};
  }
  double tail = 0, binomial = 1;  // `binomial`: n choose i
  for (std::int64_t i = 0; i <= std::min(answers.only_first, answers.only_second); ++i) {
    tail += binomial;
    binomial *= (n - static_cast<double>(i)) / static_cast<double>(i + 1);
  }
  return {true, 0, std::min(1.0, 2 * tail / std::pow(2.0, n))};
}

namespace {

// Undefined values are null, not strings as in a run's record: other programs read this file.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json interval_json(const Interval& interval) {
  return {interval.low, interval.high};
}

std::string class_of(const EvaluatedModel& model, int label) {
  return model.data.classes[static_cast<std::size_t>(label)];
}

Json class_json(const EvaluatedModel& model, const ClassScore& score) {
  Json json = {{"label", class_of(model, score.label)},
               {"images", score.images},
               {"predicted", score.guesses}};
  if (model.has_several_labels())
    json.update(Json{{"correct", score.hits},
                     {"average_precision", number(score.average_precision)},
                     {"precision", number(score.precision())},
                     {"recall", number(score.recall())},
                     {"f1", number(score.f1())},
                     {"threshold", model.thresholds[static_cast<std::size_t>(score.label)]}});
  else
    json.update(Json{{"right", score.hits},
                     {"recall", number(score.recall())},
                     {"recall_interval", interval_json(wilson_interval(score.hits, score.images))},
                     {"precision", number(score.precision())},
                     {"f1", number(score.f1())}});
  return json;
}

Json classes_json(const EvaluatedModel& model) {
  return list_json(model.has_several_labels() ? model.label_scores : model.figures.classes(),
                   [&](const ClassScore& score) { return class_json(model, score); });
}

Json bin_json(const CalibrationBin& bin) {
  return {{"images", bin.images},
          {"mean_confidence", number(bin.mean_confidence())},
          {"accuracy", number(bin.accuracy())}};
}

Json metrics_json(const EvaluatedModel& model) {
  if (model.has_several_labels()) {
    Json json = {{"task", "multi-label"}};
    for (const Figure& figure : model.details.figures) json[figure.name] = number(figure.value);
    return json;
  }
  const Evaluation& figures = model.figures;
  const Totals& totals = figures.totals();
  return {{"top1", number(totals.top1_accuracy())},
          {"top1_interval", interval_json(top1_interval(totals))},
          {"k", figures.k()},
          {"top_k", number(totals.top5_accuracy())},
          {"top_k_interval", interval_json(top5_interval(totals))},
          {"loss", number(totals.loss())},
          {"majority_share", number(majority_share(figures))},
          {"macro_recall", number(macro_recall(figures.classes()))},
          {"macro_f1", number(macro_f1(figures.classes()))},
          {"expected_calibration_error", number(expected_calibration_error(figures.calibration()))},
          {"temperature", model.calibration.temperature}};
}

// The surest mistakes, which come first in the gallery.
Json most_wrong_json(const EvaluatedModel& model) {
  constexpr std::size_t kMost = 24;
  Json list = Json::array();
  for (const PictureList& gallery : model.details.pictures)
    for (const JudgedImage& image : gallery.images)
      if (image.truth != image.guess && list.size() < kMost)
        list.push_back({{"path", image.file},
                        {"true_label", class_of(model, image.truth)},
                        {"label", class_of(model, image.guess)},
                        {"confidence", image.confidence}});
  return list;
}

Json model_json(const EvaluatedModel& model) {
  Json json = {{"path", model.path},
               {"network", model.network},
               {"images", model.num_images()},
               {"bad_images", model.num_bad},
               {"images_of_unknown_classes", model.num_unknown},
               {"unknown_classes", model.unknown_labels},
               {"doubts", model.doubts}};
  json.update(metrics_json(model));
  json["seen"] = nullptr;
  if (model.seen)
    json["seen"] = {{"training", model.seen->training}, {"validation", model.seen->validation}};
  if (!model.has_several_labels()) {
    json["calibration"] = list_json(model.figures.calibration(), bin_json);
    json["answers"] = as_json(model.calibration.answers);
  }
  json["classes"] = classes_json(model);
  if (!model.has_several_labels()) {
    json["confusion"] = as_json(model.figures.confusion());
    json["most_wrong"] = most_wrong_json(model);
  }
  json["faults"] = list_json(model.faults, fault_json);
  return json;
}

Json pair_json(const ModelPair& pair) {
  return {{"first", pair.first},
          {"second", pair.second},
          {"both_right", pair.answers.both},
          {"only_first_right", pair.answers.only_first},
          {"only_second_right", pair.answers.only_second},
          {"neither_right", pair.answers.neither},
          {"mcnemar",
           {{"exact", pair.test.is_exact},
            {"statistic", pair.test.statistic},
            {"p_value", pair.test.p_value}}}};
}

// Empty if the value is undefined.
std::string cell(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? formatted("%.6g", value.get<double>()) : value.dump();
}

// Adds the columns of a value; an interval has two.
void add_cells(const std::string& name, const Json& value, TextPairs& row) {
  if (!value.is_array()) return void(row.emplace_back(name, cell(value)));
  const std::string stem = name.substr(0, name.rfind("_interval"));
  row.emplace_back(stem + "_low", cell(value[0]));
  row.emplace_back(stem + "_high", cell(value[1]));
}

// Adds a row, and before the first one its columns' names, which those of all rows are.
void add_row(std::string& csv, const TextPairs& row) {
  std::vector<std::string> names, cells;
  for (const auto& [name, value] : row) {
    if (csv.empty()) names.push_back(name);
    cells.push_back(value);
  }
  csv += (csv.empty() ? csv_row(names) : "") + csv_row(cells);
}

}  // namespace

std::string name_of(const EvaluatedModel& model) {
  return model.network + " in " + model.path;
}

std::vector<std::string> seen_texts(const SeenCounts& seen) {
  std::vector<std::string> texts;
  const auto add = [&](long long count, const char* text, const char* result) {
    if (count > 0)
      texts.push_back(plural(count, "image is ", "images are ") + text +
                      (count == 1 ? "it" : "them") + result);
  };
  add(seen.training, "identical, byte for byte, to training images of the model: results on ",
      " are better than on new images.");
  add(seen.validation, "also among the validation images that selected the model: results on ",
      " are slightly better than on new images.");
  return texts;
}

double majority_share(const Evaluation& figures) {
  std::int64_t most = 0;
  for (const ClassScore& score : figures.classes()) most = std::max(most, score.images);
  return static_cast<double>(most) / static_cast<double>(figures.totals().count);
}

std::string evaluation_json(const EvaluationRecord& record) {
  Json json = {{"time", record.time},
               {"data_path", record.data_path},
               {"images", record.num_images},
               {"images_without_label", record.num_unlabeled},
               {"device", record.device},
               {"precision", record.precision},
               {"options", as_json(record.options)},
               {"versions", as_json(record.versions)}};
  json["models"] = list_json(record.models, model_json);
  json["pairs"] = list_json(record.pairs, pair_json);
  return json_text(json, 1) + "\n";
}

std::optional<double> metric_of(const EvaluatedModel& model, const std::string& name) {
  const Json metrics = metrics_json(model);
  const auto found = metrics.find(name);
  if (found == metrics.end() || !found->is_number()) return {};
  return found->get<double>();
}

std::string evaluation_csv(const EvaluationRecord& record) {
  std::string csv;
  for (const EvaluatedModel& model : record.models) {
    TextPairs row{{"model", model.path},
                  {"network", model.network},
                  {"images", std::to_string(model.num_images())}};
    const Json metrics = metrics_json(model);
    for (const auto& [name, value] : metrics.items())
      if (name != "task" && name != "top_k_interval" && name != "majority_share" &&
          name != "temperature")
        add_cells(name, value, row);
    row.emplace_back("seen_in_training", model.seen ? std::to_string(model.seen->training) : "");
    row.emplace_back("seen_in_validation",
                     model.seen ? std::to_string(model.seen->validation) : "");
    if (model.has_several_labels()) {
      add_row(csv, row);
      continue;
    }
    // With one label per image, overall accuracy, micro precision and micro recall are all the
    // share of correct predictions. Macro means are as scikit-learn's, over the classes that have
    // images or were predicted: the precision of a class that was never predicted is 0, as is the
    // recall of one without images.
    const std::vector<ClassScore>& classes = model.figures.classes();
    const double precision = mean_of(classes, [](const ClassScore& score) {
      return score.guesses == 0 && score.images > 0 ? 0 : score.precision();
    });
    const double recall = mean_of(classes, [](const ClassScore& score) {
      return score.images == 0 && score.guesses > 0 ? 0 : score.recall();
    });
    const std::string accuracy = cell(metrics["top1"]);
    row.insert(row.end(), {{"Overall_Accuracy", accuracy},
                           {"Micro_Precision", accuracy},
                           {"Macro_Precision", cell(number(precision))},
                           {"Micro_Recall", accuracy},
                           {"Macro_Recall", cell(number(recall))}});
    add_row(csv, row);
  }
  return csv;
}

std::string classes_csv(const EvaluationRecord& record) {
  std::string csv;
  for (const EvaluatedModel& model : record.models)
    for (const Json& of_class : classes_json(model)) {
      TextPairs row{{"model", model.path}};
      for (const auto& [name, value] : of_class.items()) add_cells(name, value, row);
      add_row(csv, row);
    }
  return csv;
}

std::string differences_csv(const EvaluationRecord& record) {
  std::string text =
      "first_model,second_model,path,true_label,first_label,first_confidence,second_label,"
      "second_confidence\n";
  for (const ModelPair& pair : record.pairs)
    for (const DifferingImage& image : pair.images)
      text += csv_row({record.models[pair.first].path, record.models[pair.second].path, image.file,
                       image.true_label, image.first_label, cell(image.first_confidence),
                       image.second_label, cell(image.second_confidence)});
  return text;
}

std::vector<Metric> evaluation_metrics(const EvaluatedModel& model) {
  if (model.has_several_labels()) {
    std::vector<Metric> metrics = list_from(model.details.figures, [](const Figure& figure) {
      return Metric{"evaluation/" + short_title(figure), figure.value};
    });
    metrics.push_back({"evaluation/images", static_cast<double>(model.num_images())});
    return metrics;
  }
  const Evaluation& figures = model.figures;
  const Totals& totals = figures.totals();
  std::vector<Metric> metrics = {
      {"evaluation/top-1", totals.top1_accuracy()},
      {"evaluation/loss", totals.loss()},
      {"evaluation/macro recall", macro_recall(figures.classes())},
      {"evaluation/macro F1", macro_f1(figures.classes())},
      {"evaluation/calibration error", expected_calibration_error(figures.calibration())},
      {"evaluation/images", static_cast<double>(totals.count)}};
  if (figures.has_top_k())
    metrics.push_back({formatted("evaluation/top-%d", figures.k()), totals.top5_accuracy()});
  return metrics;
}

}  // namespace kiln
