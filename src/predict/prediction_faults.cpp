#include "predict/prediction_faults.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace kiln {
namespace {

constexpr long long kNamed = 10;

}  // namespace

void PredictionFaults::note(const std::string& path, const std::string& fault, bool is_bad) {
  ++(is_bad ? num_bad_ : num_damaged_);
  const std::string text = "'" + path + "': " + fault;
  if (is_bad && num_bad_ <= kNamed) first_ += (num_bad_ == 1 ? "" : "; ") + text;
  const long long count = num_bad_ + num_damaged_;
  if (count <= kNamed)
    log_.warning((is_bad ? "bad image " : "damaged image ") + text +
                 (is_bad ? "" : " (used as far as it can be decoded)"));
  if (count == kNamed + 1) log_.warning("more bad or damaged images follow; each has its row");
}

void PredictionFaults::resume(long long num_bad, long long num_damaged, std::string first_bad) {
  num_bad_ = num_bad;
  num_damaged_ = num_damaged;
  first_ = std::move(first_bad);
}

void PredictionFaults::check(long long num_images) const {
  const std::int64_t allowed = allowed_.of(num_images);
  if (num_bad_ <= allowed) return;
  throw Error(
      ErrorCode::kInvalidDataset,
      formatted("At least %lld images are bad, and --max-bad-images allows %lld: ", num_bad_,
                static_cast<long long>(allowed)) +
          first_ + ". Fix or remove them, or allow more (for example --max-bad-images 10%).");
}

void PredictionFaults::require_any_good(long long num_images) const {
  if (num_bad_ < num_images) return;
  throw Error(ErrorCode::kInvalidDataset,
              "None of the images could be classified: " + first_ + ".");
}

}  // namespace kiln
