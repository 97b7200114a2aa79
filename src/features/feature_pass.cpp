#include "features/feature_pass.h"

#include <torch/torch.h>

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
  const torch::NoGradGuard no_grad;
  const at::Tensor rows =
      pooled_features(model_, uploader_.upload(*batch).images, precision_).to(torch::kFloat32);
  // Made once, so that no memory is needed to join the batches.
  if (!features_.rows.defined()) features_.rows = torch::empty({num_images_, rows.size(1)});
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
