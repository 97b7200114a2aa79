// The frozen network whose features `kiln audit` uses. Its classes do not matter.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "base/log.h"
#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "data/transform/image_pipeline.h"
#include "model/image_model.h"
#include "parallel/device/device.h"
#include "record/audit_record.h"
#include "record/vocabulary.h"
#include "train/features/feature_pass.h"

namespace kiln {

struct Backbone {
  std::unique_ptr<ImageModel> model;  // on the device
  TransformSpec pixels;
  Normalization normalization;
  std::string description;  // "resnet18 with the weights of 'm' (a trained model)"
};

// Throws Error kInvalidModelDirectory or kUserError if the model or its weights cannot be used,
// kInvalidDataset if the image size is too small for the network.
Backbone open_backbone(const AuditConfig& config, const at::Device& device, Log& log);

// The features of all images that can be decoded, in order. Bad and damaged images are logged and
// added to `faults`. Throws Error kInvalidDataset if more images are bad than allowed, or all are.
LabeledFeatures compute_features(const Backbone& backbone, Dataset& set, const AuditConfig& config,
                                 const Device& device, Log& log,
                                 std::vector<ImageFaultRecord>& faults);

}  // namespace kiln
