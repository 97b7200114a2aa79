#include "report/page/trend.h"

#include <cmath>

namespace kiln {
namespace {

constexpr double kOverfitGap = 0.10;    // training accuracy above validation accuracy
constexpr double kLossRise = 1.05;      // last validation loss / lowest
constexpr double kStillRising = 0.005;  // top-1 gained in the last quarter of the epochs
constexpr int kFewestEpochsForTrends = 4;

}  // namespace

const EpochRecord* lowest_loss(const std::vector<EpochRecord>& epochs) {
  const EpochRecord* lowest = nullptr;
  for (const EpochRecord& epoch : epochs)
    if (std::isfinite(epoch.valid.loss()) &&
        (lowest == nullptr || epoch.valid.loss() < lowest->valid.loss()))
      lowest = &epoch;
  return lowest;
}

const EpochRecord* diverged_epoch(const std::vector<EpochRecord>& epochs) {
  for (const EpochRecord& epoch : epochs)
    if (!std::isfinite(epoch.train.loss()) || !std::isfinite(epoch.valid.loss())) return &epoch;
  return nullptr;
}

const EpochRecord& earlier_epoch(const std::vector<EpochRecord>& epochs) {
  return epochs[epochs.size() - 1 - epochs.size() / 4];
}

Trend trend_of(const RunRecord& run, const RunSummary& summary) {
  const auto& epochs = run.epochs;
  if (epochs.empty()) return Trend::kNone;
  if (diverged_epoch(epochs) != nullptr) return Trend::kDiverged;
  if (epochs.size() < 2) return Trend::kNone;
  const EpochRecord &kept = *summary.kept, &last = *summary.last;
  const double train = kept.train.top1_accuracy(), valid = kept.valid.top1_accuracy();
  // A gap within the confidence interval of the validation accuracy may be due to chance.
  if (train - valid > kOverfitGap && train > top1_interval(kept.valid).high)
    return Trend::kOverfitting;
  if (epochs.size() < kFewestEpochsForTrends) return Trend::kNone;
  const bool improves = summary.best == summary.last && summary.kept == summary.last &&
                        valid - earlier_epoch(epochs).valid.top1_accuracy() >= kStillRising;
  if (improves) return Trend::kImproving;
  const EpochRecord& lowest = *lowest_loss(epochs);
  if (last.epoch - lowest.epoch >= 2 && last.valid.loss() > kLossRise * lowest.valid.loss())
    return Trend::kLossRising;
  return Trend::kSteady;
}

}  // namespace kiln
