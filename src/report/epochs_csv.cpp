#include "report/sinks.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "record/run_summary.h"

namespace kiln {
namespace {

// Python's float() and common CSV readers accept these words.
std::string number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return formatted("%.9g", value);
}

class EpochsCsv : public RunSink {
 public:
  explicit EpochsCsv(std::filesystem::path path) : path_(std::move(path)) {}

  std::string_view name() const override { return kEpochsFileName; }

  void epoch(const EpochRecord& epoch, const ValidationDetails* /*details*/) override {
    const std::vector<Metric> metrics = epoch_metrics(epoch);
    std::vector<std::string> columns = columns_;
    std::string text;
    if (columns.empty()) {
      text = "epoch";
      for (const Metric& metric : metrics) {
        columns.push_back(metric.name);
        text += "," + metric.name;
      }
      text += "\r\n";
    }
    text += std::to_string(epoch.epoch);
    for (const std::string& column : columns) {
      const auto found = std::find_if(metrics.begin(), metrics.end(),
                                      [&](const Metric& metric) { return metric.name == column; });
      text += "," + (found == metrics.end() ? "" : number(found->value));
    }
    if (!file_) file_.emplace(path_);
    file_->append(text + "\r\n");
    columns_ = std::move(columns);
  }

 private:
  std::filesystem::path path_;
  std::optional<AppendedFile> file_;  // created with the first row
  std::vector<std::string> columns_;  // set once the header and the first row are written
};

}  // namespace

std::unique_ptr<RunSink> make_epochs_csv(const std::filesystem::path& path) {
  return std::make_unique<EpochsCsv>(path);
}

}  // namespace kiln
