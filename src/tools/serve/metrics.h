// What a server has done so far, as Prometheus reads it: its text exposition format, version 0.0.4.
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// A label of a sample, `name="value"`.
std::string metric_label(std::string_view name, std::string_view value);

class ServerMetrics {
 public:
  // Counts one more of a counter that the table in metrics.cpp has, with labels such as
  // `route="/predict"`, whose values clients must not choose.
  void count(const std::string& name, const std::string& labels = "");
  // Adds a value to a histogram of the table.
  void observe(const std::string& name, double value);

  // The value of a gauge of the table.
  struct Gauge {
    std::string name;
    double value = 0;
    std::string labels = {};
  };
  std::string text(const std::vector<Gauge>& now) const;

 private:
  struct Observed {
    std::vector<std::uint64_t> up_to;  // by bound
    std::uint64_t count = 0;
    double sum = 0;
  };

  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::string, std::uint64_t>> counts_;  // by name and labels
  std::map<std::string, Observed> observed_;
};

}  // namespace kiln
