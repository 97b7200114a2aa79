#include "record/run_cost.h"

#include <charconv>
#include <cmath>

#include "base/text.h"
#include "record/run_summary.h"

namespace kiln {
namespace {

constexpr double kHour = 3600;  // seconds
constexpr double kMaxPrice = 1e6;

bool goes_on(const RunRecord& run) {
  return (run.end.status == RunStatus::kRunning || run.end.status == RunStatus::kStopped) &&
         !run.epochs.empty() && static_cast<int>(run.epochs.size()) < run.start.num_epochs;
}

}  // namespace

double price_per_hour(const RunStart& start) {
  for (const auto& [name, text] : start.options) {
    if (name != "price-per-hour") continue;
    double price = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), price);
    const bool is_price = read.ec == std::errc() && price > 0 && price <= kMaxPrice;
    return is_price ? price : 0;
  }
  return 0;
}

std::string price_text(double price) {
  constexpr double kSmall = 0.1;
  return price < kSmall ? formatted("%.4f", price) : formatted("%.2f", price);
}

std::string cost_text(const RunRecord& run) {
  const double price = price_per_hour(run.start);
  const RunSummary summary = summary_of(run);
  if (price == 0 || !(summary.seconds > 0)) return "";
  const double so_far = price * summary.seconds / kHour;
  std::string text = price_text(so_far) + " (" + duration_text(summary.seconds) + " at " +
                     price_text(price) + " an hour)";
  if (!goes_on(run)) return text;
  const auto done = static_cast<double>(run.epochs.size());
  const double epoch_seconds = (summary.train_seconds + summary.valid_seconds) / done;
  const double to_come = (run.start.num_epochs - done) * epoch_seconds;
  return text + ", about " + price_text(so_far + price * to_come / kHour) +
         formatted(" for all %d epochs", run.start.num_epochs);
}

}  // namespace kiln
