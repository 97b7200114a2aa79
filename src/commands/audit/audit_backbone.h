// The network that looks at images for `kiln audit`: frozen, and of any classes.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "base/log.h"
#include "base/vocabulary.h"
#include "config/run_config.h"
#include "data/dataset/dataset.h"
#include "data/transform/image_pipeline.h"
#include "features/feature_pass.h"
#include "model/image_model.h"
#include "parallel/device/device.h"
#include "report/record/audit_record.h"

namespace kiln {

struct Backbone {
  std::unique_ptr<ImageModel> model;  // on the device
  TransformSpec pixels;
  Normalization normalization;
  std::string description;  // "resnet18 with the weights of 'm' (a trained model)"
};

// Throws Error kInvalidModelDirectory or kUserError for a model or weights that cannot be used,
// kInvalidDataset for an image size too small for the network.
Backbone open_backbone(const AuditConfig& config, const at::Device& device, Log& log);

// The features of all images that can be decoded, in their order. Bad and damaged ones are logged,
// and added to `faults`. Throws Error kInvalidDataset for more bad ones than allowed, or all.
LabeledFeatures compute_features(const Backbone& backbone, Dataset& set, const AuditConfig& config,
                                 const Device& device, Log& log,
                                 std::vector<ImageFaultRecord>& faults);

}  // namespace kiln
