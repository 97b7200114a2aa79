#include "report/lines.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace kiln {
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

std::string rates_line(const EpochRecord& record) {
  std::string text = formatted("learning rate %g, train images/s %.2f", record.learning_rate,
                               record.train_images_per_second);
  if (const auto& time = record.communication; time && time->summing > 0)
    text += formatted(", gradients summed in %.1f s, %.0f %% of them behind backward",
                      time->summing, 100 * std::max(0.0, 1 - time->waiting / time->summing));
  return text;
}

std::string progress_line(const StepRecord& timing, double last_loss) {
  const double share = static_cast<double>(timing.step) / timing.num_steps;
  const double left = timing.elapsed_seconds / share * (1 - share) +
                      timing.elapsed_seconds / share * (timing.num_epochs - timing.epoch);
  return formatted("epoch %d/%d  step %d/%d  %.1f images/s  loss %.4f  data wait %.0f %%  ",
                   timing.epoch, timing.num_epochs, timing.step, timing.num_steps,
                   timing.epoch_images_per_second, last_loss, 100 * timing.data_wait_share) +
         "left " + duration_text(left);
}

std::string duration_text(double seconds) {
  if (seconds < 60) return formatted("%.1f s", seconds);
  const long whole = std::lround(seconds);
  if (whole < 3600) return formatted("%ld min %02ld s", whole / 60, whole % 60);
  return formatted("%ld h %02ld min", whole / 3600, whole % 3600 / 60);
}

std::string bytes_text(long long bytes) {
  const auto value = static_cast<double>(bytes);
  return bytes >= 1'000'000'000 ? formatted("%.2f GB", value / 1e9)
                                : formatted("%.0f MB", value / 1e6);
}

std::string grouped(long long number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

}  // namespace kiln
