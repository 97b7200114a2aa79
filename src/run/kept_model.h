// The output of a kept epoch: its validation details and, at the end, the model directory.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/training_record.h"
#include "data/dataset/dataset.h"
#include "data/transform/image_pipeline.h"
#include "parallel/ranks/world.h"
#include "run/plan/prepare.h"
#include "run/run_logger.h"
#include "train/evaluation.h"
#include "train/state.h"

namespace kiln {

// The details of one validation pass, collected from all ranks.

// The temperature that fits `logits`, and how often the model is right at which confidence.
// `logits` are of this rank's images. A collective; the result is the same on all ranks.
Calibration calibrate(World& world, const HostLogits& logits);

// `predictions` are this rank's, on images of `valid`, transformed by `pixels`. A collective;
// complete on rank 0 only.
ValidationDetails judge(World& world, const std::vector<Prediction>& predictions,
                        const Dataset& valid, const TransformSpec& pixels, int epoch);

// The end of a run: the model directory.

// Rank 0 writes the best epoch's model, explains its mistakes if that was asked for, and logs its
// path, or that there is none. Memory that only training needs is released first, since files are
// built in memory. A collective. Throws Error kFailedToWriteOutputs.
void save(TrainingJob& job, std::unique_ptr<TrainState> state, RunLogger& log);

}  // namespace kiln
