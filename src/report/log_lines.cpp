#include "report/log_lines.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/text.h"

namespace kiln {
namespace {

constexpr int kLeastBar = 8, kMaxBar = 24;

// Returns a bar of `width` columns; empty if that is fewer than kLeastBar.
std::string bar(double share, int width, bool utf8) {
  if (width < kLeastBar) return "";
  const int inside = width - 2;
  const int full = static_cast<int>(std::lround(share * inside));
  std::string text = "[";
  for (int i = 0; i < inside; ++i)
    text += i < full ? (utf8 ? "\u2588" : "#") : (utf8 ? "\u2591" : ".");
  return text + "]";
}

double share_of(const StepRecord& at) {
  return static_cast<double>(at.step) / at.num_steps;
}

// Returns `title`, a bar, and the first of `ends` that leaves room for the bar; if none does, the
// last of `ends` without a bar.
std::string live_line(const std::string& title, double share, const std::vector<std::string>& ends,
                      const LiveLine& live) {
  const auto room = [&](const std::string& end) {
    return live.columns - static_cast<int>(title.size() + end.size());
  };
  const std::string& end =
      *std::find_if(ends.begin(), std::prev(ends.end()),
                    [&](const std::string& text) { return room(text) >= kLeastBar; });
  return title + bar(share, std::min(room(end), kMaxBar), live.utf8) + end;
}

std::string live_line(const StepRecord& at, const std::vector<std::string>& ends,
                      const LiveLine& live) {
  return live_line(formatted("epoch %d/%d ", at.epoch, at.num_epochs), share_of(at), ends, live);
}

std::string left_text(double seconds) {
  return "  left " + (seconds < 60 ? formatted("%.0f s", seconds) : duration_text(seconds));
}

}  // namespace

std::string iteration_line(const StepRecord& record) {
  return formatted("Epoch: [%d/%d]\tIter: [%d/%d]\t", record.epoch, record.num_epochs, record.step,
                   record.num_steps) +
         formatted("Avg_Time_Batch/Avg_Time_Epoch(s): %.3f/%.3f\t", record.batch_seconds,
                   record.epoch_seconds) +
         formatted("Avg_Ips_Batch/Avg_Ips_Epoch(img/s): %.4f/%.4f\t",
                   record.batch_images_per_second, record.epoch_images_per_second) +
         formatted("Avg_Loss_Batch/Avg_Loss_Epoch: %.4f/%.4f\t", record.batch.loss(),
                   record.so_far.loss()) +
         formatted("Avg_Error_Batch/Avg_Error_Epoch: %.4f/%.4f", 1 - record.batch.top1_accuracy(),
                   1 - record.so_far.top1_accuracy());
}

std::string epoch_line(const EpochRecord& record) {
  return formatted("Epoch %d,train_ips %.2f,train_loss %.6f,train_error %.6f,", record.epoch,
                   record.average_images_per_second, record.train.loss(),
                   1 - record.train.top1_accuracy()) +
         formatted("valid_loss %.5f,top1 acc %.5f,top5 acc %.5f", record.valid.loss(),
                   record.valid.top1_accuracy(), record.valid.top5_accuracy());
}

std::string epoch_news(const EpochRecord& record) {
  const auto part = [](const char* name, const Totals& totals) {
    return formatted("%s loss %.4f, top-1 %.2f %%", name, totals.loss(),
                     100 * totals.top1_accuracy());
  };
  return formatted("epoch %d: ", record.epoch) + part("train", record.train) + "; " +
         part("valid", record.valid);
}

std::string rates_line(const EpochRecord& record) {
  std::string text = formatted("learning rate %g, train images/s %.2f", record.learning_rate,
                               record.train_images_per_second);
  if (const auto& time = record.communication; time && time->summing > 0)
    text += formatted(", all-reduce %.1f s, %.0f %% overlapped with backward", time->summing,
                      100 * std::max(0.0, 1 - time->waiting / time->summing));
  return text;
}

std::string progress_line(const StepRecord& timing, const LiveLine& live) {
  const double share = share_of(timing);
  double seconds = timing.elapsed_seconds / share * (1 - share) +
                   timing.elapsed_seconds / share * (timing.num_epochs - timing.epoch);
  if (timing.max_seconds_left) seconds = std::min(seconds, *timing.max_seconds_left);
  const std::string begin = formatted(" %d/%d", timing.step, timing.num_steps);
  const std::string rate = formatted("  %.0f images/s", timing.epoch_images_per_second);
  const std::string loss = formatted("  loss %.4f", live.loss);
  const std::string top1 = formatted("  top-1 %.1f %%", 100 * live.top1);
  const std::string wait = formatted("  data wait %.0f %%", 100 * timing.data_wait_share);
  const std::string left = left_text(seconds);
  return live_line(timing,
                   {begin + rate + loss + top1 + wait + left, begin + rate + loss + top1 + left,
                    begin + rate + top1 + left, begin + rate + left, begin + left},
                   live);
}

std::string validation_line(const StepRecord& at, const LiveLine& live) {
  return live_line(at, {formatted(" %d/%d  validation", at.step, at.num_steps)}, live);
}

std::string scoring_line(long long done, long long total, double seconds, const LiveLine& live,
                         long long before) {
  const double per_second = seconds > 0 ? static_cast<double>(done - before) / seconds : 0;
  const std::string rate = formatted("  %.0f images/s", per_second);
  if (total == 0) return grouped(done) + " images" + rate;
  const std::string begin = " " + grouped(done) + "/" + grouped(total) + " images";
  const std::string left =
      per_second > 0 ? left_text(static_cast<double>(total - done) / per_second) : "";
  const double share = static_cast<double>(done) / static_cast<double>(total);
  return live_line("", share, {begin + rate + left, begin + left}, live);
}

std::vector<std::string> epoch_table(const std::vector<EpochRecord>& epochs, int saved_epoch) {
  constexpr std::size_t kMaxRows = 20;
  std::vector<std::string> rows = {
      "  epoch  learning rate  train loss     top-1  valid loss     top-1  images/s"};
  bool has_star = false;
  const std::size_t stride =
      epochs.size() <= kMaxRows ? 1 : (epochs.size() + kMaxRows - 3) / (kMaxRows - 2);
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    const EpochRecord& epoch = epochs[i];
    const bool kept = epoch.epoch == saved_epoch;
    has_star = has_star || kept;
    if (i % stride != 0 && i + 1 != epochs.size() && !kept) continue;
    rows.push_back(formatted("%s %5d %14.4g %11.4f %7.2f %% %11.4f %7.2f %% %9.1f",
                             kept ? "*" : " ", epoch.epoch, epoch.learning_rate, epoch.train.loss(),
                             100 * epoch.train.top1_accuracy(), epoch.valid.loss(),
                             100 * epoch.valid.top1_accuracy(), epoch.train_images_per_second));
  }
  if (has_star) rows.emplace_back("* the epoch whose weights were saved");
  return rows;
}

}  // namespace kiln
