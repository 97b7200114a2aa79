#include "record/metrics.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace kiln {
namespace {

constexpr double kMegabyte = 1e6;

void add_step_times(const StepTimes& times, int num_steps, std::vector<Metric>* metrics) {
  const double to_milliseconds = 1000.0 / std::max(1, num_steps);
  const auto add = [&](const char* name, double seconds) {
    metrics->push_back({name, seconds * to_milliseconds});
  };
  add("Step milliseconds/data wait", times.data_wait);
  add("Step milliseconds/forward", times.forward);
  add("Step milliseconds/backward", times.backward);
  add("Step milliseconds/communication", times.communication);
  add("Step milliseconds/optimizer", times.optimizer);
}

constexpr const char* kNumber = " ([0-9.eE+-]+)";

struct LogFigure {
  const char* name;
  const char* in_line;
};

constexpr std::array<LogFigure, 6> kLogFigures = {{{"train:images_per_second", "train_ips"},
                                                   {"train:loss", "train_loss"},
                                                   {"train:error", "train_error"},
                                                   {"validation:loss", "valid_loss"},
                                                   {"validation:top1", "top1 acc"},
                                                   {"validation:top5", "top5 acc"}}};

}  // namespace

std::vector<Metric> epoch_metrics(const EpochRecord& epoch) {
  std::vector<Metric> metrics = {
      {"learning rate", epoch.learning_rate},
      {"Train images per second", epoch.average_images_per_second},
      {"Train loss", epoch.train.loss()},
      {"Train error", 1 - epoch.train.top1_accuracy()},
      {"Valid loss", epoch.valid.loss()},
      {"Top-1 validation accuracy", epoch.valid.top1_accuracy()},
      {"Top-5 validation accuracy", epoch.valid.top5_accuracy()},
      {"Rate/images per second of the whole epoch", epoch.train_images_per_second},
      {"Seconds/training", epoch.train_seconds},
      {"Seconds/validation", epoch.valid_seconds},
  };
  if (epoch.macro) {
    metrics.push_back({"Validation/macro recall", epoch.macro->recall});
    metrics.push_back({"Validation/macro F1", epoch.macro->f1});
  }
  add_step_times(epoch.times, epoch.num_steps, &metrics);
  metrics.push_back({"Memory/peak MB", static_cast<double>(epoch.peak_memory_bytes) / kMegabyte});
  if (epoch.peak_device_bytes > 0)
    metrics.push_back(
        {"Memory/GPU peak MB", static_cast<double>(epoch.peak_device_bytes) / kMegabyte});
  if (epoch.gpu) {
    metrics.push_back({"GPU/utilization percent", epoch.gpu->utilization_percent});
    metrics.push_back({"GPU/power watts", epoch.gpu->power_watts});
  }
  if (epoch.cpu_share > 0)
    metrics.push_back({"CPU/percent of compute threads", 100 * epoch.cpu_share});
  metrics.push_back({"Bad images/training", static_cast<double>(epoch.bad_train_images)});
  metrics.push_back({"Bad images/validation", static_cast<double>(epoch.bad_valid_images)});
  if (epoch.skipped_steps)
    metrics.push_back({"Skipped steps", static_cast<double>(*epoch.skipped_steps)});
  return metrics;
}

std::vector<Metric> step_metrics(const StepRecord& step) {
  return {{"Step/loss", step.batch.loss()},
          {"Step/learning rate", step.learning_rate},
          {"Step/images per second", step.batch_images_per_second}};
}

long long global_step(const StepRecord& step) {
  return static_cast<long long>(step.epoch - 1) * step.num_steps + step.step;
}

std::string metric_definitions() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const LogFigure& figure : kLogFigures)
    list.push_back({{"Name", figure.name}, {"Regex", std::string(",") + figure.in_line + kNumber}});
  return list.dump(2) + "\n";
}

}  // namespace kiln
