#include "run/first_batches.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/platform/launch_environment.h"
#include "base/text.h"
#include "record/earlier_run.h"
#include "report/page/page.h"

namespace kiln {
namespace {

constexpr int kBatches = 2, kColumns = 8, kQuality = 85;
constexpr std::int64_t kShown = 32;  // images of a batch

// The inverse of normalize_pixels(): [N, H, W, 3], bytes on the CPU.
at::Tensor pixels_of(const at::Tensor& images, const Normalization& scaling) {
  const at::Tensor values = images.cpu().to(at::kDouble).permute({0, 2, 3, 1});
  const at::Tensor shares = values * at::tensor(scaling.std) + at::tensor(scaling.mean);
  return (shares * 255).round().clamp(0, 255).to(at::kByte).contiguous();
}

}  // namespace

FirstBatches::FirstBatches(const Dataset& set, const Normalization& scaling,
                           std::filesystem::path logs, Log& log)
    : set_(set), scaling_(scaling), logs_(std::move(logs)), log_(log) {
  if (!collects_outputs()) set_aside(logs_, "first_batch");
}

void FirstBatches::operator()(const DeviceBatch& batch) {
  if (num_drawn_ == kBatches || batch.labels.size(0) == 0) return;
  ++num_drawn_;
  warn_without_pictures(log_);
  const PicturesModule* module = pictures_module();
  if (module == nullptr) return;
  const std::int64_t count = std::min(batch.labels.size(0), kShown);
  const at::Tensor pixels = pixels_of(batch.images.narrow(0, 0, count), scaling_);
  const std::int64_t bytes = pixels[0].numel();
  const auto name = [&](const at::Tensor& labels, std::int64_t i) {
    return set_.label_text(labels[i].item<int>());
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint8_t* first = pixels.const_data_ptr<std::uint8_t>() + i * bytes;
    std::string caption = name(batch.labels, i);
    if (batch.shares.defined()) {
      const double share = 100 * batch.shares[i].item<double>();
      caption += formatted(" %.0f + ", share) + name(batch.other_labels, i) +
                 formatted(" %.0f %%", 100 - share);
    }
    pictures_.push_back({{static_cast<int>(pixels.size(1)),
                          static_cast<int>(pixels.size(2)),
                          {first, first + bytes}},
                         std::move(caption)});
  }
  try {
    write_file_durably(logs_ / kFirstBatchName,
                       encode_jpeg(image_of(module->contact_sheet(pictures_, kColumns)), kQuality));
  } catch (const Error& fault) {
    log_.warning("The first batches are not shown: " + fault.message());
  }
  if (num_drawn_ == kBatches) pictures_ = {};  // not needed while the run goes on
}

}  // namespace kiln
