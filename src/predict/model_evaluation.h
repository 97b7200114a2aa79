// One model on labeled images: every image's answer, and the figures of them all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/run_config.h"
#include "data/dataset/dataset.h"
#include "predict/predictions.h"
#include "report/record/evaluation_record.h"
#include "report/scores/score_formats.h"

namespace kiln {

// What a model says of an image whose class it knows.
struct ImageAnswer {
  std::int32_t guess = -1;  // class id; -1: the image is bad, has no label or one of another class
  float confidence = 0;
  bool is_right = false;
};

struct ModelAnswers {
  EvaluatedModel model;
  std::vector<ImageAnswer> images;  // by their place in the set
  TransformSpec pixels;             // how the model saw them
};

// `path` is the model's. Calls `row` with each image of the set, in their order. Throws Error
// kInvalidDataset if the set has no label that the model knows, if no labeled image could be
// decoded, and for more bad images than allowed; and what Predictions::for_each() throws.
ModelAnswers evaluate_model(const std::string& path, Predictor& predictor, Dataset& set,
                            const EvaluateConfig& config, const Device& device, Log& log,
                            const std::function<void(const Score&)>& row);

}  // namespace kiln
