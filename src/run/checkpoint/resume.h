// A run that continues where a checkpoint left it.
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
  bool is_complete = false;              // its model and the end of its record are written, too
};

// Opens --checkpoint-path on rank 0, and finds what to continue from: `job.checkpoints`,
// `job.resume`. A collective, before any input is read. Throws Error kUserError naming every option
// whose value differs and decides the result; as CheckpointFolder does; and for --resume require
// without a checkpoint.
void find_checkpoint(TrainingJob& job);

// The same for the inputs, once they have been read: the model, the data, the global batch. A
// collective.
void check_resumed_inputs(TrainingJob& job);

// Why results will not be those of an uninterrupted run to the last bit, a sentence; empty if they
// will.
std::string why_not_bit_equal(const TrainingJob& job);

// Puts the checkpoint into a fresh state. A collective.
void restore(TrainingJob& job, TrainState& state);

}  // namespace kiln
