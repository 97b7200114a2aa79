// The contents of a checkpoint's state.json: everything about a run except its tensors and its
// metrics, as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "run/inputs/image_sizes.h"
#include "store/model_directory.h"
#include "train/state.h"

namespace kiln {

// A fingerprint of a dataset: its classes, names, labels and sizes of archive members. A copy of
// the dataset in another place has the same fingerprint.
struct DatasetFingerprint {
  long long images = 0;
  std::vector<std::string> classes;
  std::string hash;
};
DatasetFingerprint fingerprint_of(const Dataset& set);

// Of all that a run reads.
struct Fingerprints {
  DatasetFingerprint train, valid;
  std::string model;
};

// A fingerprint of a model: its architecture and, if pretrained, its weights.
std::string fingerprint_of(const ModelDirectory& model);

// EpochSums as plain values.
struct SavedEpoch : EpochNumbers {
  Totals totals;  // finite
};
SavedEpoch saved_epoch(const EpochSums& sums);  // waits for the device
void load_epoch(const SavedEpoch& saved, EpochSums& sums);

// The part of a checkpoint that may differ between ranks.
struct SavedRank {
  SavedEpoch epoch;
  ImageFaults bad_train, bad_valid;
  DatasetFingerprint train, valid;  // of ranks that share rank 0's images, only its own
};

// What affects results bit for bit, besides the options.
struct SavedMachine {
  std::string version;       // of this program
  std::string instructions;  // used by LibTorch's kernels: "AVX2"
  std::string device;        // "cpu" or "cuda"
  int num_ranks = 1;
  int num_threads = 1;  // compute threads of a rank
};

struct SavedRun {
  double time = 0, started = 0;  // Unix seconds: of the checkpoint, of the run
  std::string
      finished;  // why training ended: "epochs", "patience", "time-limit"; empty: it did not
  SavedMachine machine;
  OptionTexts options;
  OptionTexts options_in_effect;            // Plan's
  std::string precision = "fp32";           // also if chosen by auto
  std::string exif = "ignore";              // or "apply", also if chosen by auto
  std::string fit = "crop";                 // likewise
  std::vector<double> mean, std;            // of the normalization, likewise
  std::optional<AutomaticSize> image_size;  // PixelPlan::by_images, without its reason
  std::string model, model_fingerprint;
  std::string transforms;  // from --transform-path, as JSON; empty: not given
  long long global_batch = 0;
  double peak_learning_rate = 0;
  double head_rate = 0;                 // OptimizerPlan's
  std::optional<LossScale> loss_scale;  // for fp16
  std::int64_t averaged_steps = 0;      // steps in the averaged weights, with --ema
  Progress progress;                    // without weights
  std::vector<SavedRank> ranks;

  int steps() const { return ranks.front().epoch.steps; }
  // "epoch 3, step 120".
  std::string position() const;
};

std::string format_rank(const SavedRank& rank);
// `ranks`: texts from format_rank(), used instead of `run.ranks`.
std::string format_saved_run(const SavedRun& run, const std::vector<std::string>& ranks);
// Throws Error kInvalidDataset if `text` is not from a checkpoint.
SavedRun parse_saved_run(std::string_view text);

}  // namespace kiln
