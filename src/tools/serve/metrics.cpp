#include "tools/serve/metrics.h"

#include <string_view>

#include "base/text.h"

namespace kiln {
namespace {

struct Metric {
  std::string_view name, type, help;
  std::vector<double> bounds = {};  // of a histogram
};

const std::vector<Metric>& metric_table() {
  static const std::vector<Metric> kTable = {
      {"kiln_requests_total", "counter", "Requests, by route and status."},
      {"kiln_request_duration_seconds",
       "histogram",
       "Time of requests to the model, from their last byte to the response.",
       {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}},
      {"kiln_batch_images", "histogram", "Images in a batch.", {1, 2, 4, 8, 16, 32, 64, 128}},
      {"kiln_answers_total", "counter", "Images that were answered."},
      {"kiln_class_answers_total", "counter", "Images that were answered with a class, by class."},
      {"kiln_unsure_answers_total", "counter", "Answers below the confidence threshold."},
      {"kiln_unlike_images_total", "counter", "Of these, images unlike the training images."},
      {"kiln_validation_unsure_ratio", "gauge", "Share of the validation images below it."},
      {"kiln_access_log_dropped_total", "counter", "Requests that --access-log misses."},
      {"kiln_model_info", "gauge", "1, with the model's fingerprint and the program's version."},
      {"kiln_model_reloads_total", "counter", "Reloads of the model, by result."},
      {"kiln_ready", "gauge", "1 if the server is not ending and its model answers."},
      {"kiln_connections", "gauge", "Open connections."},
      {"kiln_queued_images", "gauge", "Images that wait or are being answered."}};
  return kTable;
}

std::string sample(std::string_view name, const std::string& labels, double value) {
  return std::string(name) + (labels.empty() ? "" : "{" + labels + "}") +
         formatted(" %.17g\n", value);
}

}  // namespace

std::string metric_label(std::string_view name, std::string_view value) {
  std::string label = std::string(name) + "=\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') label += '\\';
    label += c;  // no class has a line break
  }
  return label + '"';
}

void ServerMetrics::count(const std::string& name, const std::string& labels) {
  const std::scoped_lock lock(mutex_);
  ++counts_[name][labels];
}

void ServerMetrics::observe(const std::string& name, double value) {
  const std::scoped_lock lock(mutex_);
  Observed& observed = observed_[name];
  for (const Metric& metric : metric_table()) {
    if (metric.name != name) continue;
    observed.up_to.resize(metric.bounds.size());
    for (std::size_t i = 0; i < metric.bounds.size(); ++i)
      observed.up_to[i] += value <= metric.bounds[i] ? 1 : 0;
  }
  ++observed.count;
  observed.sum += value;
}

std::string ServerMetrics::text(const std::vector<Gauge>& now) const {
  const std::scoped_lock lock(mutex_);
  std::string text;
  for (const auto& [name, type, help, bounds] : metric_table()) {
    const std::string key(name);
    std::string samples;
    if (type == "counter" && !counts_.contains(key)) samples = sample(name, "", 0);
    if (type == "counter" && counts_.contains(key))
      for (const auto& [labels, count] : counts_.at(key)) samples += sample(name, labels, count);
    for (const Gauge& gauge : now)
      if (gauge.name == name) samples += sample(name, gauge.labels, gauge.value);
    if (type == "histogram") {
      Observed all = observed_.contains(key) ? observed_.at(key) : Observed();
      all.up_to.resize(bounds.size());
      for (std::size_t i = 0; i < bounds.size(); ++i)
        samples += sample(key + "_bucket", formatted("le=\"%g\"", bounds[i]), all.up_to[i]);
      const auto count = static_cast<double>(all.count);
      samples += sample(key + "_bucket", "le=\"+Inf\"", count) + sample(key + "_sum", "", all.sum) +
                 sample(key + "_count", "", count);
    }
    if (!samples.empty())
      text += formatted("# HELP %s ", key.c_str()) + std::string(help) +
              formatted("\n# TYPE %s ", key.c_str()) + std::string(type) + "\n" + samples;
  }
  return text;
}

}  // namespace kiln
