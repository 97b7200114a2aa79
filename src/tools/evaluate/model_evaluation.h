// Evaluates one model on labeled images: the answer for each image, and metrics over all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "predict/predictions.h"
#include "record/evaluation_record.h"
#include "report/scores/score_formats.h"

namespace kiln {

// A model's answer for one labeled image.
struct ImageAnswer {
  std::int32_t guess = -1;  // class id; -1: the image is bad or has no label that the model knows
  float confidence = 0;
  bool is_right = false;
};

struct ModelAnswers {
  EvaluatedModel model;
  std::vector<ImageAnswer> images;  // by index in the set
  TransformSpec pixels;             // how the model saw them
};

// `path` is the model's path. Calls `row` for each image of the set, in order. Throws Error
// kInvalidDataset if the set has no label that the model knows, if no labeled image can be decoded,
// or if there are more bad images than allowed; also throws what Predictions::for_each() throws.
ModelAnswers evaluate_model(const std::string& path, Predictor& predictor, Dataset& set,
                            const EvaluateConfig& config, const Device& device, Log& log,
                            const std::function<void(const Score&)>& row);

}  // namespace kiln
