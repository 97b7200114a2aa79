#include "report/mlflow_sink.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "report/class_scores.h"
#include "report/metrics.h"
#include "report/mlflow_sender.h"

namespace kiln {
namespace {

// Azure ML takes 50 names a run; this leaves room for the others.
constexpr std::size_t kMostClassesByName = 20;

TextPairs params_of(const RunStart& start) {
  TextPairs params = start.options;
  params.insert(params.end(), {{"model", start.model},
                               {"model parameters", std::to_string(start.num_parameters)},
                               {"ranks", std::to_string(start.num_ranks)},
                               {"global batch", std::to_string(start.global_batch)},
                               {"classes", std::to_string(start.data.classes.size())}});
  // Open MLflow servers before 2.0 and Azure ML refuse empty values.
  std::erase_if(params, [](const auto& param) { return param.second.empty(); });
  return params;
}

TextPairs tags_of(const RunStart& start) {
  TextPairs tags = {{"device", start.device},
                    {"training data", start.data.train_path},
                    {"validation data", start.data.valid_path},
                    {"mlflow.source.name", "kiln train"}};
  for (const auto& [name, version] : start.versions) {
    tags.emplace_back(name == "kiln" ? "version" : name, version);
    if (name == "commit") tags.emplace_back("mlflow.source.git.commit", version);
  }
  return tags;
}

std::vector<MlflowPoint> points_of(const std::vector<Metric>& metrics, double time,
                                   long long step) {
  std::vector<MlflowPoint> points;
  points.reserve(metrics.size());
  for (const Metric& metric : metrics)
    points.push_back({metric.name, metric.value, static_cast<std::int64_t>(time * 1000), step});
  return points;
}

// A label is no path: servers refuse names such as "a/../b".
std::string recall_name(std::string label) {
  std::replace(label.begin(), label.end(), '/', '_');
  return mlflow_name("Recall/class " + label);
}

// How much of each class is recognised. Labels that would share a name get their number.
std::vector<MlflowPoint> recalls_of(const RunRecord& run) {
  const std::vector<std::string>& classes = run.start.data.classes;
  if (classes.size() > kMostClassesByName) return {};
  std::vector<Metric> recalls;
  std::set<std::string> names;
  for (const ClassScore& score : scores_by_label(run.judgement.confusion)) {
    if (score.images == 0) continue;
    std::string name = recall_name(classes.at(static_cast<std::size_t>(score.label)));
    if (!names.insert(name).second) name = "Recall/number " + std::to_string(score.label);
    recalls.push_back({name, score.recall()});
  }
  return points_of(recalls, run.end.time, run.judgement.epoch);
}

class MlflowSink : public RunSink {
 public:
  MlflowSink(MlflowSettings settings, MlflowFiles files, Log& log)
      : settings_(std::move(settings)), files_(std::move(files)), log_(log) {}

  std::string_view name() const override { return "MLflow"; }

  void start(const RunStart& start) override {
    sender_ = std::make_unique<MlflowSender>(settings_, params_of(start), tags_of(start), log_);
  }
  void step(const StepRecord& step) override {
    sender_->add(points_of(step_metrics(step), step.time, global_step(step)));
  }
  void epoch(const EpochRecord& epoch, const Judgement* /*judgement*/) override {
    sender_->add(points_of(epoch_metrics(epoch), epoch.time, epoch.epoch));
  }
  void end(const RunRecord& run) override {
    sender_->add(recalls_of(run));
    MlflowEnd end;
    if (run.end.status == RunStatus::kFailed) end.status = "FAILED";
    if (run.end.status == RunStatus::kStopped) end.status = "KILLED";
    end.files = files_.files;
    if (!run.end.model_path.empty()) {
      const std::filesystem::path model = run.end.model_path;
      end.files.push_back(model / "training.json");
      if (files_.whole_model) end.model = model;
    }
    std::erase_if(end.files, [](const auto& file) { return !std::filesystem::exists(file); });
    sender_->end(std::move(end));
  }
  std::string lost() const override { return sender_ ? sender_->lost() : ""; }

 private:
  MlflowSettings settings_;
  MlflowFiles files_;
  Log& log_;
  std::unique_ptr<MlflowSender> sender_;
};

}  // namespace

std::unique_ptr<RunSink> make_mlflow_sink(MlflowSettings settings, MlflowFiles files, Log& log) {
  std::string user, password;
  mlflow_server_url(settings.tracking_uri, &user, &password);
  return std::make_unique<MlflowSink>(std::move(settings), std::move(files), log);
}

}  // namespace kiln
