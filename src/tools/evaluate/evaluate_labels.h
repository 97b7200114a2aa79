// `kiln evaluate` of a model for several labels an image.
#pragma once

#include "base/log.h"
#include "base/output_folder.h"
#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "predict/inference.h"

namespace kiln {

// Asks the model about the images, whose labels were read as several, and writes the files of the
// evaluation. Throws Error kInvalidDataset if no image has labels that the model knows.
void evaluate_labels(const EvaluateConfig& config, const Inference& inference, Predictor& predictor,
                     Dataset& set, const OutputFolder& output, Log& log);

}  // namespace kiln
