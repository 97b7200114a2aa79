// The model that a run keeps: of which epoch it is, what is told of it, and its directory.
#pragma once

#include <memory>
#include <vector>

#include "base/training_record.h"
#include "parallel/ranks/world.h"
#include "run/plan/prepare.h"
#include "run/run_logger.h"
#include "train/evaluation.h"
#include "train/state.h"

namespace kiln {

// Keeps the model of this epoch, in the state and without its calibration, if --save and --best-by
// say so. Returns whether they do, on all ranks alike.
bool keep_if_best(const TrainingJob& job, TrainState& state, const EpochRecord& record);

// The temperature that fits `logits`, and how often the model is right at which confidence.
// `logits` are of this rank's images. A collective; the result is the same on all ranks.
Calibration calibrate(World& world, const HostLogits& logits);

// What the record shows of the best epoch, once keep_if_best() has kept it; also calibrates its
// model, in the state. `predictions` and `logits` are this rank's, on the job's validation images.
// A collective; complete on rank 0 only.
ValidationDetails judge_best(const TrainingJob& job, TrainState& state,
                             const std::vector<Prediction>& predictions, const HostLogits& logits);

// Ends a run: rank 0 writes the best epoch's model, explains its mistakes if that was asked for,
// and logs its path, or that there is none. Memory that only training needs is released first,
// since files are built in memory. A collective. Throws Error kFailedToWriteOutputs.
void save(TrainingJob& job, std::unique_ptr<TrainState> state, RunLogger& log);

}  // namespace kiln
