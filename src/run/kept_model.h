// The model that a run keeps: which epoch it is from, its validation details, and its directory.
#pragma once

#include <optional>
#include <vector>

#include "parallel/ranks/world.h"
#include "record/training_record.h"
#include "run/run.h"
#include "store/model_directory.h"
#include "train/evaluation.h"
#include "train/state.h"

namespace kiln {

// Keeps this epoch's model in the state, without a calibration, if --save and --best-by call for
// it. Returns whether it was kept; the result is the same on all ranks.
bool keep_if_best(Run& run, const EpochRecord& record);

// The record's details on the best epoch; call after keep_if_best() has kept it. Also sets the
// model's calibration in the state. `predictions` and `logits` are this rank's, for the job's
// validation images. A collective; the result is complete on rank 0 only.
ValidationDetails judge_best(Run& run, const std::vector<Prediction>& predictions,
                             const HostLogits& logits);

// The files of a model directory with the best epoch so far. On rank 0. `features`: the contents of
// features.safetensors, if there is one, and of training_features.safetensors.
std::vector<OutputFile> model_files(const Run& run, BestEpoch best, std::optional<SeenImages> seen,
                                    std::string features = {}, std::string training_features = {});

// Ends a run: rank 0 writes the best epoch's model, explains its mistakes if requested, and logs
// the model's path, or that there is no model. First releases the memory that only training needs,
// since the files are built in memory. A collective. Throws Error kFailedToWriteOutputs if the
// model cannot be written to its folder; it is then kept in another one, which the error names.
void save(Run& run, std::string features, std::string training_features);

}  // namespace kiln
