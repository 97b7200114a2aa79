#include "run/image_fault_ledger.h"

#include "base/error.h"

namespace kiln {
namespace {

constexpr std::size_t kNamed = 10;

}  // namespace

ImageFaultLedger::ImageFaultLedger(std::string name, const ImageSet& set, const TrainConfig& config,
                                   bool leads, Log& log)
    : name_(std::move(name)),
      set_(set),
      on_bad_image_(config.data.on_bad_image),
      allowed_(config.data.max_bad_images.of(static_cast<std::int64_t>(set.items.size()))),
      leads_(leads),
      log_(log) {}

void ImageFaultLedger::note(const std::vector<BadImage>& faults) {
  for (const BadImage& fault : faults) {
    if (!seen_.insert(fault.item).second) continue;
    const std::string file(set_.items.file_name(fault.item));
    records_.push_back({name_, file, fault.fault, fault.damaged});
    num_bad_ += fault.damaged ? 0 : 1;
    if (records_.size() <= kNamed)
      say((fault.damaged ? "damaged " : "bad ") + name_ + " image '" + file + "': " + fault.fault +
          (fault.damaged ? " (used as far as it goes)" : " (left out)"));
    if (records_.size() == kNamed + 1)
      say("more bad or damaged " + name_ + " images follow; training.json will name them all");
  }
  const bool stop_at_first = on_bad_image_ == OnBadImage::kFail && num_bad_ > 0;
  if (stop_at_first || num_bad_ > allowed_) refuse();
}

void ImageFaultLedger::refuse() const {
  std::string message = (name_ == "training" ? "Training" : "Validation") +
                        std::string(" dataset '") + set_.root.string() + "' has bad images:";
  std::size_t named = 0;
  for (const ImageFaultRecord& record : records_) {
    if (record.damaged || named == kNamed) continue;
    message += (named++ == 0 ? " '" : "; '") + record.file + "' (" + record.fault + ")";
  }
  if (on_bad_image_ == OnBadImage::kFail)
    message += ". Mend or remove it, or allow some with --on-bad-image skip.";
  else
    message += ". That is " + std::to_string(num_bad_) + " of " +
               std::to_string(set_.items.size()) + " images, and --max-bad-images allows " +
               std::to_string(allowed_) +
               ": mend or remove them, or allow more (for example --max-bad-images " +
               std::to_string(num_bad_ * 2) + " or 10%).";
  throw Error(ErrorCode::kInvalidDataset, message);
}

}  // namespace kiln
