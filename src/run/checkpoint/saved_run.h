// What a checkpoint's state.json says: all of a run but its tensors and its metrics, as plain
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.h"
#include "data/dataset/dataset.h"
#include "store/model_directory.h"
#include "train/state.h"

namespace kiln {

// Distinguishes datasets: by classes, names, labels and the sizes of archive members. A copy of a
// dataset elsewhere has the same.
struct DatasetPrint {
  long long images = 0;
  std::vector<std::string> classes;
  std::string hash;
};
DatasetPrint print_of(const Dataset& set);

// Distinguishes models: by architecture and, where they are pretrained, by their weights.
std::string print_of(const ModelDirectory& model);

// EpochSums as plain values.
struct SavedEpoch {
  int steps = 0;
  bool has_joined = false;
  Totals totals;  // finite
  double images = 0, weighted_seconds = 0, weighted_rate = 0;
  EpochTimes spent;
};
SavedEpoch saved_epoch(const EpochSums& sums);  // waits for the device
void load_epoch(const SavedEpoch& saved, EpochSums& sums);

// The part of a checkpoint that may differ between ranks.
struct SavedRank {
  SavedEpoch epoch;
  ImageFaults bad_train, bad_valid;
  DatasetPrint train, valid;
};

// What decides the bits of results, besides the options.
struct Machine {
  std::string version;       // of the program
  std::string instructions;  // of LibTorch's kernels: "AVX2"
  std::string device;        // "cpu" or "cuda"
  int num_ranks = 1;
  int num_threads = 1;  // compute threads of a rank
};

struct SavedRun {
  double time = 0, started = 0;  // Unix seconds: of the checkpoint, of the run
  std::string
      finished;  // why training ended: "epochs", "patience", "time-limit"; empty: it did not
  Machine machine;
  OptionTexts options;
  std::string precision = "fp32";  // what auto chose, too
  std::string model, model_print;
  std::string transforms;  // of --transform-path, as JSON; empty: not given
  long long global_batch = 0;
  double peak_learning_rate = 0;
  std::optional<LossScale> loss_scale;  // with fp16
  std::int64_t averaged_steps = 0;      // that the averages of the weights hold, with --ema
  Progress progress;                    // without weights
  std::vector<SavedRank> ranks;

  int steps() const { return ranks.front().epoch.steps; }
  // "epoch 3, step 120".
  std::string position() const;
};

std::string format_rank(const SavedRank& rank);
// `ranks`: of format_rank(), which replace those of `run`.
std::string format_saved_run(const SavedRun& run, const std::vector<std::string>& ranks);
// Throws Error kInvalidDataset for a text that is not of a checkpoint.
SavedRun parse_saved_run(std::string_view text);

// Whether the model directory holds the model of the run that began at this time.
bool holds_model_of(const std::string& model_directory, double started);

}  // namespace kiln
