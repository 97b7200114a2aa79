#include "train/features/feature_pass.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "train/precision.h"

namespace kiln {

FeaturePass::FeaturePass(ImageModel& model, BatchLoader& loader, DeviceUploader& uploader,
                         Precision precision, std::int64_t num_images)
    : model_(model),
      loader_(loader),
      uploader_(uploader),
      precision_(precision),
      num_images_(num_images) {
  model_.train(false);
}

bool FeaturePass::step() {
  const HostBatch* batch = loader_.next();
  if (batch == nullptr) return false;
  ++steps_;
  if (batch->count == 0) return true;
  const at::NoGradGuard no_grad;
  const at::Tensor rows =
      pooled_features(model_, uploader_.upload(*batch).images, precision_).to(at::kFloat);
  // Allocated once for all images, so that joining the batches needs no extra memory.
  if (!features_.rows.defined()) features_.rows = at::empty({num_images_, rows.size(1)});
  features_.rows.narrow(0, images_done(), rows.size(0)).copy_(rows);
  for (const std::int64_t label : batch->labels)
    features_.labels.push_back(static_cast<std::int32_t>(label));
  features_.samples.insert(features_.samples.end(), batch->samples.begin(), batch->samples.end());
  return true;
}

LabeledFeatures FeaturePass::take() {
  if (features_.rows.defined()) features_.rows = features_.rows.narrow(0, 0, images_done());
  return std::move(features_);
}

}  // namespace kiln
