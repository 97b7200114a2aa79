// When a run writes checkpoints, and what it puts into them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/system.h"
#include "run/checkpoint/saved_run.h"
#include "run/plan/prepare.h"
#include "run/run_logger.h"
#include "store/checkpoint_thread.h"

namespace kiln {

// Every rank has one and calls it in lockstep; only rank 0 needs to see the folder, and writes on a
// thread of its own. Without --checkpoint-path it does nothing. A checkpoint that cannot be written
// is missed, with a warning, and training continues. One thread.
class Checkpoints {
 public:
  // All must outlive it.
  Checkpoints(TrainingJob& job, const TrainState& state, RunLogger& log);

  // Whether this rank wants one now, for the ranks' vote: rank 0 where --checkpoint-every says so,
  // each where SIGUSR2 was received. After a step, and after an epoch.
  bool is_due(bool epoch_ended);

  // Collectives. begin() copies the state and returns, finish() also waits until it is written.
  // `finished`: why training ended, or empty.
  void begin() { write({}); }
  void finish(const std::string& finished = {});
  // The state cannot be resumed from: finish() only waits.
  void forgo_the_last() { is_forgone_ = true; }

 private:
  void write(const std::string& finished);
  SavedRank saved_rank() const;
  SavedRun saved_run(const std::string& finished) const;
  void copy_state();
  void warn_of_failure();
  void skip_while_busy();

  TrainingJob& job_;
  const TrainState& state_;
  RunLogger& log_;
  const CheckpointConfig& config_;
  // Since the last one that was begun.
  Stopwatch since_;
  std::int64_t steps_ = 0;
  int epochs_ = 0;
  bool was_told_busy_ = false, was_requested_ = false, is_forgone_ = false;

  // On rank 0, what the writer reads while it is busy.
  std::vector<NamedTensor> copies_;  // the state's tensors, on the host, row-major
  std::vector<std::string> statistics_, train_hashes_, valid_hashes_;  // by rank
  std::vector<NamedTensor> best_;
  std::string state_json_, record_;
  std::unique_ptr<CheckpointWriter> writer_;  // last
};

// The machine and settings of this process that decide the bits of results.
Machine machine_of(const TrainingJob& job);

// What differs between ranks until an epoch ends: BatchNorm's statistics, and their averages where
// weights are averaged.
std::vector<NamedTensor> statistics_of(const TrainState& state);
// All floats in this order, then all counts of batches.
std::string pack_statistics(const std::vector<NamedTensor>& statistics);
// `packed` is of a state of the same kind; false: it is not.
bool unpack_statistics(std::string_view packed, const std::vector<NamedTensor>& statistics);

}  // namespace kiln
