#include "record/evaluation_record.h"

#include <cmath>
#include <numeric>

#include "base/text.h"
#include "record/run_json.h"
#include "record/run_summary.h"

namespace kiln {
namespace {

// Undefined values are null, not strings as in a run's record, because other programs read this
// file.
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
  return {{"label", class_of(model, score.label)},
          {"images", score.images},
          {"predicted", score.guesses},
          {"right", score.hits},
          {"recall", number(score.recall())},
          {"recall_interval", interval_json(wilson_interval(score.hits, score.images))},
          {"precision", number(score.precision())},
          {"f1", number(score.f1())}};
}

Json calibration_json(const Evaluation& figures) {
  Json bins = Json::array();
  for (const CalibrationBin& bin : figures.calibration())
    bins.push_back({{"images", bin.images},
                    {"mean_confidence", number(bin.mean_confidence())},
                    {"accuracy", number(bin.accuracy())}});
  return bins;
}

Json wrong_json(const EvaluatedModel& model) {
  Json images = Json::array();
  for (const JudgedImage& image : model.most_wrong)
    images.push_back({{"path", image.file},
                      {"true_label", class_of(model, image.truth)},
                      {"label", class_of(model, image.guess)},
                      {"confidence", image.confidence}});
  return images;
}

Json faults_json(const EvaluatedModel& model) {
  Json faults = Json::array();
  for (const ImageFaultRecord& fault : model.faults)
    faults.push_back({{"path", fault.file}, {"fault", fault.fault}, {"used", fault.damaged}});
  return faults;
}

Json model_json(const EvaluatedModel& model) {
  const Evaluation& figures = model.figures;
  const Totals& totals = figures.totals();
  Json json = {
      {"path", model.path},
      {"network", model.network},
      {"images", totals.count},
      {"bad_images", model.num_bad},
      {"images_of_unknown_classes", model.num_unknown},
      {"unknown_classes", model.unknown_labels},
      {"top1", number(totals.top1_accuracy())},
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
  if (model.seen)
    json["seen"] = {{"training", model.seen->training}, {"validation", model.seen->validation}};
  else
    json["seen"] = nullptr;
  json["calibration"] = calibration_json(figures);
  json["answers"] = as_json(model.calibration.answers);
  json["classes"] = Json::array();
  for (const ClassScore& score : figures.classes())
    json["classes"].push_back(class_json(model, score));
  json["confusion"] = as_json(figures.confusion());
  json["most_wrong"] = wrong_json(model);
  json["faults"] = faults_json(model);
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
std::string cell(double value) {
  return std::isfinite(value) ? formatted("%.6g", value) : "";
}

// Unweighted mean over the classes that have images or were predicted, as in scikit-learn, where
// the precision of a class that was never predicted is 0. NaN if there are none.
double macro_precision(const Evaluation& figures) {
  double sum = 0;
  int count = 0;
  for (const ClassScore& score : figures.classes()) {
    if (score.images == 0 && score.guesses == 0) continue;
    sum += score.guesses > 0 ? score.precision() : 0;
    ++count;
  }
  return sum / count;
}

}  // namespace

std::string name_of(const EvaluatedModel& model) {
  return model.network + " in " + model.path;
}

std::vector<std::string> seen_texts(const SeenCounts& seen) {
  std::vector<std::string> texts;
  const auto add = [&](long long count, const char* text) {
    if (count > 0)
      texts.push_back(grouped(count) + (count == 1 ? " image is " : " images are ") + text);
  };
  add(seen.training,
      "identical, byte for byte, to training images of the model: the accuracy is optimistic. "
      "Remove them.");
  add(seen.validation,
      "also among the validation images that selected the model: the accuracy is slightly "
      "optimistic.");
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
  json["models"] = Json::array();
  for (const EvaluatedModel& model : record.models) json["models"].push_back(model_json(model));
  json["pairs"] = Json::array();
  for (const ModelPair& pair : record.pairs) json["pairs"].push_back(pair_json(pair));
  return json_text(json, 1) + "\n";
}

std::string evaluation_csv(const EvaluationRecord& record) {
  std::string text =
      "model,network,images,top1,top1_low,top1_high,k,top_k,loss,macro_recall,macro_f1,"
      "expected_calibration_error,seen_in_training,seen_in_validation,Overall_Accuracy,"
      "Micro_Precision,Macro_Precision,Micro_Recall,Macro_Recall\n";
  for (const EvaluatedModel& model : record.models) {
    const Evaluation& figures = model.figures;
    const Totals& totals = figures.totals();
    const Interval interval = top1_interval(totals);
    const std::string accuracy = cell(totals.top1_accuracy());
    const std::string recall = cell(macro_recall(figures.classes()));
    text += joined(
        {csv_field(model.path), model.network, std::to_string(totals.count), accuracy,
         cell(interval.low), cell(interval.high), std::to_string(figures.k()),
         cell(totals.top5_accuracy()), cell(totals.loss()), recall,
         cell(macro_f1(figures.classes())), cell(expected_calibration_error(figures.calibration())),
         model.seen ? std::to_string(model.seen->training) : "",
         model.seen ? std::to_string(model.seen->validation) : "",
         // With one label per image, overall accuracy, micro precision and micro recall are all the
         // share of correct predictions.
         accuracy, accuracy, cell(macro_precision(figures)), accuracy, recall},
        ",");
    text += "\n";
  }
  return text;
}

std::string classes_csv(const EvaluationRecord& record) {
  std::string text =
      "model,label,images,predicted,right,recall,recall_low,recall_high,precision,f1\n";
  for (const EvaluatedModel& model : record.models)
    for (const ClassScore& score : model.figures.classes()) {
      const Interval interval = wilson_interval(score.hits, score.images);
      text += joined({csv_field(model.path), csv_field(class_of(model, score.label)),
                      std::to_string(score.images), std::to_string(score.guesses),
                      std::to_string(score.hits), cell(score.recall()), cell(interval.low),
                      cell(interval.high), cell(score.precision()), cell(score.f1())},
                     ",") +
              "\n";
    }
  return text;
}

std::string differences_csv(const EvaluationRecord& record) {
  std::string text =
      "first_model,second_model,path,true_label,first_label,first_confidence,second_label,"
      "second_confidence\n";
  for (const ModelPair& pair : record.pairs)
    for (const DifferingImage& image : pair.images)
      text += joined({csv_field(record.models[pair.first].path),
                      csv_field(record.models[pair.second].path), csv_field(image.file),
                      csv_field(image.true_label), csv_field(image.first_label),
                      cell(image.first_confidence), csv_field(image.second_label),
                      cell(image.second_confidence)},
                     ",") +
              "\n";
  return text;
}

std::vector<Metric> evaluation_metrics(const EvaluatedModel& model) {
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
