// Resumes a run from a checkpoint.
#pragma once

#include <optional>
#include <string>

#include "base/log.h"
#include "cli/run_config.h"
#include "parallel/ranks/world.h"
#include "run/checkpoint/saved_run.h"
#include "run/inputs/sources.h"
#include "store/checkpoint.h"
#include "train/precision.h"

namespace kiln {

struct Job;
struct Run;

struct ResumePoint {
  SavedRun run;                          // the same on all ranks
  std::optional<Checkpoint> checkpoint;  // on rank 0, until restore()
  bool is_finished = false;              // nothing is left to train
  bool is_complete = false;              // its model and the end of its record are also written
};

struct FoundCheckpoint {
  std::optional<CheckpointFolder> folder;  // rank 0, with --checkpoint-path
  std::optional<ResumePoint> resume;
  // Why the run starts over beside checkpoints that nobody asked for; the same on all ranks.
  std::string misfit;

  // Moves those checkpoints out of the way; call once all inputs are read, which may be among them.
  // A collective.
  void set_aside(const CheckpointConfig& config, World& world, Log& log);
};

// Opens --checkpoint-path on rank 0 and finds the checkpoint to continue from. A collective, called
// before any input is read. Throws Error kUserError if options that affect the result differ,
// naming all of them, if there are complete checkpoints of which none can be used, or if there is
// no checkpoint with --resume require; also throws as CheckpointFolder. If nobody asked for the
// checkpoints, they are set aside instead.
FoundCheckpoint find_checkpoint(const TrainConfig& config, World& world, Log& log);

// Makes the same checks for what was read and planned: the model, the data, the global batch. If
// nobody asked for the checkpoints, returns why they do not fit, the same on all ranks. A
// collective.
std::string check_resumed(const SavedRun& saved, const Job& job);

// A sentence on why results will not equal those of an uninterrupted run bit for bit; empty if they
// will.
std::string why_not_bit_equal(const SavedRun& saved, const Job& job);

// Loads the checkpoint into the run's fresh state. A collective.
void restore(Run& run);

}  // namespace kiln
