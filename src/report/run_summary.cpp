#include "report/run_summary.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <numeric>

#include "base/text.h"

namespace kiln {
namespace {

void add(const StepTimes& times, StepTimes* sum) {
  sum->data_wait += times.data_wait;
  sum->forward += times.forward;
  sum->backward += times.backward;
  sum->communication += times.communication;
  sum->optimizer += times.optimizer;
}

void note_largest_class(const std::vector<long long>& counts, RunSummary* summary) {
  if (summary->num_valid == 0) return;
  const auto largest = std::max_element(counts.begin(), counts.end());
  summary->largest_class = static_cast<int>(largest - counts.begin());
  summary->largest_share = static_cast<double>(*largest) / static_cast<double>(summary->num_valid);
}

// The time of the last event, for runs that did not say how they ended.
double last_time(const RunRecord& run) {
  double time = run.start.time;
  if (!run.steps.empty()) time = std::max(time, run.steps.back().time);
  if (!run.epochs.empty()) time = std::max(time, run.epochs.back().time);
  return time;
}

}  // namespace

RunSummary summary_of(const RunRecord& run) {
  RunSummary summary;
  double images = 0;
  for (const EpochRecord& epoch : run.epochs) {
    if (summary.best == nullptr || is_better(epoch.valid, summary.best->valid))
      summary.best = &epoch;
    summary.last = &epoch;
    images += static_cast<double>(epoch.train.count);
    summary.train_seconds += epoch.train_seconds;
    summary.valid_seconds += epoch.valid_seconds;
    add(epoch.times, &summary.times);
  }
  if (summary.train_seconds > 0) summary.images_per_second = images / summary.train_seconds;
  const bool ended = run.end.total_seconds > 0;
  summary.seconds = ended ? run.end.total_seconds : last_time(run) - run.start.time;
  const DataRecord& data = run.start.data;
  summary.num_train = std::accumulate(data.train_counts.begin(), data.train_counts.end(), 0LL);
  summary.num_valid = std::accumulate(data.valid_counts.begin(), data.valid_counts.end(), 0LL);
  note_largest_class(data.valid_counts, &summary);
  return summary;
}

const EpochRecord* kept_epoch(const RunRecord& run) {
  const auto kept =
      std::find_if(run.epochs.begin(), run.epochs.end(),
                   [&](const EpochRecord& epoch) { return epoch.epoch == run.end.saved_epoch; });
  return kept == run.epochs.end() ? nullptr : &*kept;
}

Interval top1_interval(const Totals& totals) {
  return wilson_interval(totals.top1, totals.count);
}

Interval top5_interval(const Totals& totals) {
  return wilson_interval(totals.top5, totals.count);
}

std::string status_text(const RunEnd& end) {
  switch (end.status) {
    case RunStatus::kRunning:
      return "running or killed";
    case RunStatus::kFinished:
      return end.stopped_early.empty() ? "finished" : "stopped early";
    case RunStatus::kStopped:
      return "stopped by a signal";
    case RunStatus::kFailed:
      return "failed";
  }
  return "";
}

std::string run_title(const RunStart& start) {
  std::filesystem::path folder = start.data.train_path;
  if (!folder.has_filename()) folder = folder.parent_path();
  const std::string name = folder.filename().string();
  // "photos" of photos/train.
  const bool is_part = name == "train" || name == "training";
  const std::string data = is_part ? folder.parent_path().filename().string() : name;
  return (start.model.empty() ? "A model" : start.model) + (data.empty() ? "" : " on " + data);
}

std::string percent(double share) {
  if (!std::isfinite(share)) return "unknown";
  if (share <= 0 || share >= 1) return formatted("%.0f %%", 100 * share);
  return formatted("%.1f %%", std::clamp(100 * share, 0.1, 99.9));
}

std::string utc_text(double unix_seconds) {
  if (!(unix_seconds > 0 && unix_seconds < 253402300800.0)) return "unknown";
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm fields{};
  gmtime_r(&seconds, &fields);
  return formatted("%04d-%02d-%02d %02d:%02d UTC", fields.tm_year + 1900, fields.tm_mon + 1,
                   fields.tm_mday, fields.tm_hour, fields.tm_min);
}

}  // namespace kiln
