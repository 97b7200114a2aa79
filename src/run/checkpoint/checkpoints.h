// Decides when a run writes checkpoints, and collects their contents.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/system.h"
#include "cli/run_config.h"
#include "model/image_model.h"
#include "parallel/ranks/world.h"
#include "run/checkpoint/saved_run.h"
#include "store/checkpoint.h"

namespace kiln {

struct Machine;
struct Run;

// Every rank has one and calls it in lockstep. Only rank 0 needs access to the folder; it writes on
// a background thread. Without --checkpoint-path, the checkpoints are in the log folder, and beside
// them a model directory of the best epoch, until a model is saved. If a checkpoint cannot be
// written, it is skipped with a warning and training continues. One thread.
class Checkpoints {
 public:
  // The run must outlive it, and have its state.
  explicit Checkpoints(Run& run);

  // Whether this rank votes for a checkpoint now: rank 0 when one is due by --checkpoint-every, any
  // rank after SIGUSR2. Call after each step and after each epoch.
  bool is_due(bool epoch_ended);

  // Collectives. begin() copies the state and returns; finish() also waits until the checkpoint is
  // written. `finished`: why training ended, or empty.
  void begin() { write({}); }
  void finish(const std::string& finished = {});
  // Call if the state cannot be resumed from: finish() then only waits.
  void skip_final() { is_forgone_ = true; }

  // Call before each epoch: keeps the best one in the log folder from the second minute on, once a
  // minute at most and for a small share of the time. A collective.
  void keep_best();

 private:
  void write(const std::string& finished);
  SavedRank saved_rank() const;
  SavedRun saved_run(const std::string& finished) const;
  void warn_of_failure();
  bool make_writer();  // of temporary checkpoints, when the first is due

  Run& run_;
  const TrainState& state_;
  const CheckpointConfig& config_;
  // Since the last checkpoint was begun.
  Stopwatch since_;
  std::int64_t steps_ = 0, epochs_ = 0;
  bool has_warned_ = false, was_requested_ = false, is_forgone_ = false, cannot_write_ = false;
  Stopwatch since_best_;
  double best_seconds_ = 0;  // that writing it took
  int kept_epoch_ = 0;

  // On rank 0: read by the writer while it is busy.
  std::vector<NamedTensor> copies_;  // the state's tensors, on the host, row-major
  std::vector<std::pair<std::string, std::string>> parts_;  // of the ranks: names and bytes
  std::vector<NamedTensor> best_;
  std::string state_json_, record_;
  std::unique_ptr<CheckpointWriter> writer_;  // last: it uses the members above
};

// Removes what a run without --checkpoint-path has left in its log folder; call on rank 0 once its
// model is saved.
void remove_temporary_checkpoints(Run& run);

// The properties of this process's machine and setup that affect results bit for bit.
SavedMachine saved_machine(const Machine& machine, const World& world);

// The tensors that differ between ranks until an epoch ends: BatchNorm's statistics, and their
// averages if weights are averaged.
std::vector<NamedTensor> statistics_of(const TrainState& state);
// Packs all floating-point tensors in this order, then all batch counts.
std::string pack_statistics(const std::vector<NamedTensor>& statistics);
// Returns false if `packed` does not come from statistics of the same sizes.
bool unpack_statistics(std::string_view packed, const std::vector<NamedTensor>& statistics);

}  // namespace kiln
