#include "report/metric_definitions.h"

#include <array>
#include <nlohmann/json.hpp>

namespace kiln {
namespace {

constexpr const char* kNumber = " ([0-9.eE+-]+)";

struct Metric {
  const char* name;
  const char* in_line;
};

constexpr std::array<Metric, 6> kMetrics = {{{"train:images_per_second", "train_ips"},
                                             {"train:loss", "train_loss"},
                                             {"train:error", "train_error"},
                                             {"validation:loss", "valid_loss"},
                                             {"validation:top1", "top1 acc"},
                                             {"validation:top5", "top5 acc"}}};

}  // namespace

std::string metric_definitions() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Metric& metric : kMetrics)
    list.push_back({{"Name", metric.name}, {"Regex", std::string(",") + metric.in_line + kNumber}});
  return list.dump(2) + "\n";
}

}  // namespace kiln
