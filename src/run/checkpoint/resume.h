// Resumes a run from a checkpoint.
#pragma once

#include <optional>

#include "run/checkpoint/saved_run.h"
#include "store/checkpoint.h"
#include "train/state.h"

namespace kiln {

struct TrainingJob;

struct ResumePoint {
  SavedRun run;                          // the same on all ranks
  std::optional<Checkpoint> checkpoint;  // on rank 0, until restore()
  bool is_finished = false;              // nothing is left to train
  bool is_complete = false;              // its model and the end of its record are also written
};

// Opens --checkpoint-path on rank 0 and finds the checkpoint to continue from: sets
// `job.checkpoints` and `job.resume`. A collective, called before any input is read. Throws Error
// kUserError if options that affect the result differ, naming all of them, or if there is no
// checkpoint with --resume require; also throws as CheckpointFolder.
void find_checkpoint(TrainingJob& job);

// Makes the same checks for the inputs once they have been read: the model, the data, the global
// batch. A collective.
void check_resumed_inputs(TrainingJob& job);

// A sentence on why results will not equal those of an uninterrupted run bit for bit; empty if they
// will.
std::string why_not_bit_equal(const TrainingJob& job);

// Loads the checkpoint into a fresh state. A collective.
void restore(TrainingJob& job, TrainState& state);

}  // namespace kiln
