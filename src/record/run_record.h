// The record of a training run: its plan, its epochs and how it ended. Sinks (run_sink.h) receive
// it piece by piece. `metrics.jsonl` stores all of it (run_file.h), so a report can be created
// either by the run itself or later from the file.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "record/training_record.h"

namespace kiln {

using TextPairs = std::vector<std::pair<std::string, std::string>>;

// How reports call what Totals::top1 counts, and what they advise: as with one label an image,
// unless the task says otherwise.
struct TaskWords {
  std::string task = {};  // of the option --task
  std::string right = "top-1";
  std::string for_small_classes =
      "`--sample balanced` or `--class-weights balanced`, and `--best-by macro-recall`";
  // How many images there are, if that is not the sum of the counts; else 0.
  long long train_images = 0, valid_images = 0;
  bool operator==(const TaskWords&) const = default;
};

// What tells labels without looking at what images show: predict/shortcuts.h.
struct Shortcut {
  std::string fact;      // "width"
  bool is_alone = true;  // else `fact` has several, joined by ", "
  // So many labels of `images` it tells, and always predicting the largest class would.
  std::int64_t told = 0, largest = 0, images = 0;
};

struct DataRecord {
  TaskWords words = {};
  std::string train_path, valid_path;
  std::vector<std::string> classes;
  std::vector<long long> train_counts, valid_counts;  // by class; empty for a stream
  std::string fit = "crop";                           // fit_name(); of earlier versions, too
  std::optional<double> cut_away;        // by a center crop from a typical image, as a share of it
  std::vector<Shortcut> shortcuts = {};  // in files of training images; one label an image
  int image_height = 0, image_width = 0;
  int resize_short_side = 0;                                        // 0: images are used as stored
  std::string augment;                                              // augment_name()
  int eval_height = 0, eval_width = 0, eval_resize_short_side = 0;  // the same for validation
  std::string normalization;                                        // "half" or "imagenet"
  double mean[3] = {}, std[3] = {};
};

struct RunStart {
  double time = 0;        // Unix seconds
  TextPairs options;      // every option with its effective value
  TextPairs versions;     // of the program and its libraries
  std::string command;    // the command line that repeats the run, quoted for the shell
  std::string model;      // "resnet18"
  std::string device;     // as shown on the console
  std::string host = {};  // of rank 0, which writes the record
  // The compute precision, "bf16", and why it was chosen; empty in records of older versions.
  std::string precision = {}, precision_reason = {};
  TextPairs plan = {};  // the plan, as shown on the console: label, text
  long long num_parameters = 0;
  int num_ranks = 1, num_epochs = 0, steps_per_epoch = 0;
  int global_batch = 0;  // images per step, over all ranks
  DataRecord data;
};

// The number of epochs, for a run that decides it after its start.
struct PlannedLength {
  double time = 0;  // Unix seconds
  int num_epochs = 0;
  std::string reason;  // as shown on the console: "30min: 12 epochs fit, …"
};

// Labels in a run's plan: of PlannedLength::reason, and of the ranks and their hosts.
inline constexpr const char* kTimeLimitLabel = "time limit";
inline constexpr const char* kRanksLabel = "ranks";

enum class RunStatus {
  kRunning,   // or killed: the record has no end event
  kFinished,  // all epochs, early stopping, or the end of the time limit
  kStopped,   // by a signal
  kFailed,
};

struct RunEnd {
  double time = 0;  // Unix seconds
  RunStatus status = RunStatus::kRunning;
  std::string failure;        // for kFailed: the message
  std::string stopped_early;  // "", "patience", "time-limit" or "signal"
  int saved_epoch = 0;        // 0: none
  std::string model_path;     // where the ModelDirectory is; empty: none was written
  std::string replaced = {};  // what is known of the model that was there; empty: there was none
  std::string validation_fingerprint = {};        // of the validation images and their labels
  std::optional<AutomaticRecord> automatic = {};  // for a run with --auto
  std::vector<ImageFaultRecord> image_faults;
  double start_to_first_step_seconds = 0, total_seconds = 0;
  long long peak_memory_bytes = 0, peak_device_bytes = 0;
};

// Where an interrupted run resumed, and what the interruption cost.
struct Interruption {
  double time = 0;             // Unix seconds: when it resumed
  int epoch = 0, step = 0;     // the current epoch, from 1, and its finished steps
  double checkpoint_time = 0;  // Unix seconds: of the checkpoint it resumed from
  double last_seen = 0;        // Unix seconds: of the last line of the old record; 0: unknown
  long long lost_steps = 0;    // steps to repeat, according to the old record
  double lost_seconds = 0;     // the time they took, likewise
  int num_ranks = 1;           // from here on; so is the host
  std::string host = {};
};

struct RunRecord {
  RunStart start;                 // as last started, but with the time of the first start
  std::vector<StepRecord> steps;  // printed steps only; of a long run not all: is_recorded()
  std::vector<EpochRecord> epochs;
  std::vector<std::string> warnings;
  ValidationDetails details;  // of the epoch whose model is kept
  std::vector<Interruption> interruptions;
  RunEnd end;             // for a resumed run that has not ended: the usage up to its checkpoint
  TextPairs sink_states;  // only in a checkpoint's record: RunSink::state() by name
  std::string text;       // only in a RunReporter: the lines of the file
  // Not in the file. Set at the end of the run: the sinks that lost nothing, and what the other
  // sinks and the log have lost.
  std::vector<std::string> whole_sinks, losses;
};

}  // namespace kiln
