#include "run/run_faults.h"

#include <cmath>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "run/rank_agreement.h"

namespace kiln {
namespace {

constexpr std::size_t kNamed = 10;

}  // namespace

BadImageLedger::BadImageLedger(std::string name, const Dataset& set, bool is_shard,
                               const DataConfig& config, ImageFaults& faults)
    : name_(std::move(name)),
      set_(set),
      is_shard_(is_shard),
      on_bad_image_(config.on_bad_image),
      allowed_(config.max_bad_images.of(static_cast<std::int64_t>(set.samples.size()))),
      faults_(faults) {}

void BadImageLedger::note(const std::vector<BadImage>& faults, bool leads, Log& log) {
  const auto say = [&](const std::string& text) { leads ? log.warning(text) : log.info(text); };
  for (const BadImage& fault : faults) {
    if (!faults_.samples.insert(fault.sample).second) continue;
    const std::string file(set_.samples.file_name(fault.sample));
    faults_.records.push_back({name_, file, fault.fault, fault.damaged});
    faults_.num_bad += fault.damaged ? 0 : 1;
    const std::size_t count = faults_.records.size();
    if (count <= kNamed)
      say((fault.damaged ? "damaged " : "bad ") + name_ + " image '" + file + "': " + fault.fault +
          (fault.damaged ? " (used as far as it can be decoded)" : " (skipped)"));
    if (count == kNamed + 1)
      say("more bad or damaged " + name_ + " images follow; training.json will list all of them");
  }
  const bool stop_at_first = on_bad_image_ == OnBadImage::kFail && faults_.num_bad > 0;
  if (stop_at_first || faults_.num_bad > allowed_) refuse();
}

void BadImageLedger::note_everywhere(const std::vector<BadImage>& mine, World& world, Log& log) {
  // Indices of another shard's images mean nothing here: its own ranks record them.
  const std::vector<BadImage> all = is_shard_ ? mine : share_faults(world, mine);
  world.agree([&] { note(all, world.leads(), log); });
}

void BadImageLedger::refuse() const {
  std::string message = (name_ == "training" ? "Training" : "Validation") +
                        std::string(" dataset '") + set_.root.string() + "' has bad images:";
  std::size_t named = 0;
  for (const ImageFaultRecord& record : faults_.records) {
    if (record.damaged || named == kNamed) continue;
    message += (named++ == 0 ? " '" : "; '") + record.file + "' (" + record.fault + ")";
  }
  if (on_bad_image_ == OnBadImage::kFail)
    message += ". Fix or remove it, or skip bad images with --on-bad-image skip.";
  else
    message += ". That is " + std::to_string(faults_.num_bad) + " of " +
               std::to_string(set_.samples.size()) + " images, and --max-bad-images allows " +
               std::to_string(allowed_) +
               ": fix or remove them, or allow more (for example --max-bad-images " +
               std::to_string(faults_.num_bad * 2) + " or 10%).";
  throw Error(ErrorCode::kInvalidDataset, message);
}

void throw_diverged(World& world, const StepRecord& at, int first_bad_step) {
  int first = 0;
  for (const int step : world.gather(first_bad_step))
    if (step > 0 && (first == 0 || step < first)) first = step;
  world.agree([&] {
    throw Error(
        ErrorCode::kFailedToCompleteOperation,
        formatted("The training loss is not finite in epoch %d, step %d, at learning rate %g: "
                  "training has diverged. Use a lower --learning-rate (try a tenth of it).",
                  at.epoch, first, at.learning_rate));
  });
  throw InternalError("ranks agreed on a failure that none of them has");
}

void check_epoch(const EpochRecord& record, int batch_size) {
  if (record.train.count == 0 || record.valid.count == 0)
    throw Error(ErrorCode::kInvalidDataset,
                std::string(record.train.count == 0 ? "Training" : "Validation") +
                    " dataset is not valid: none of its images could be decoded. `kiln inspect "
                    "--check` lists why.");
  if (!std::isfinite(record.valid.loss_sum))
    throw Error(
        ErrorCode::kFailedToCompleteOperation,
        formatted("The validation loss is not finite after epoch %d, step %lld, at learning rate "
                  "%g: training has diverged. Use a lower --learning-rate (try a tenth of it).",
                  record.epoch, static_cast<long long>(record.train.count / batch_size),
                  record.learning_rate));
}

}  // namespace kiln
