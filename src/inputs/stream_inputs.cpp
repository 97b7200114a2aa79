#include "inputs/stream_inputs.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "data/dataset/readers.h"
#include "data/stream/stream_source.h"

namespace kiln {
namespace {

// Of --collective-timeout, so that the rank that waits for its stream tells of it before those that
// wait for this rank.
constexpr double kShareOfTimeout = 0.9;

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::kParameterParsing, text);
}

}  // namespace

Dataset stream_dataset(const DataConfig& config, const Dataset& valid) {
  Dataset set;
  set.kind = Dataset::Kind::kStream;
  set.root = config.train_path;
  set.name = "Training dataset";
  set.classes = valid.classes;  // with --classes, those of its file
  set.first_label = config.records.first_label ? config.records.first_label : valid.first_label;
  set.schema_json = schema_text(set.classes);
  return set;
}

void check_stream_options(const TrainConfig& config, const TrainingInputs& inputs, int num_ranks) {
  const std::string& path = config.data.train_path;
  const bool has_steps = config.data.stream.steps_per_epoch > 0;
  if (!inputs.train.is_stream()) {
    if (config.data.stream.by_record)
      refuse("--shard-by record is for streams, but --train-data-path '" + path +
             "' has files: use --shard-by rank.");
    if (!has_steps) return;
    refuse("--steps-per-epoch is for streams, but the length of --train-data-path '" + path +
           "' is known: leave it out, or end with --steps.");
  }
  const OptimizationConfig& optimization = config.optimization;
  const std::string stream = "--train-data-path '" + path + "' is a stream";
  if (!has_steps)
    refuse(stream +
           ", whose length nobody knows: give --steps-per-epoch, the number of images "
           "divided by the global batch.");
  if (optimization.class_weights != ClassWeights::kNone ||
      optimization.sample != Sampling::kShuffle)
    refuse(stream +
           ", whose images nobody has counted: --class-weights and --sample balanced need "
           "files, such as those of `kiln pack`.");
  if (optimization.automatic.choice == AutoChoice::kYes)
    refuse(stream +
           ", and --auto True needs images that can be read again: give files, or leave --auto "
           "out.");
  if (optimization.folds > 0)
    refuse(stream + ", and --folds needs images that can be read again: give files.");
  if (num_ranks > 1 && !config.data.has_train_shard)
    refuse(
        stream + ", and what one rank has read of it is gone for the " +
        std::to_string(num_ranks - 1) +
        " others: give each rank a stream of its own, with --channel-per-rank, or use one rank.");
}

StreamLoader::Plan stream_plan(const TrainConfig& config, const TrainingInputs& inputs) {
  RecordOptions records = config.data.records;
  records.first_label = inputs.train.first_label;
  return {.path = inputs.train.root.string(),
          .name = inputs.train.name,
          .classes = inputs.train.classes,
          .records = std::move(records),
          .steps_per_epoch = inputs.steps_per_epoch,
          .batch_size = config.optimization.batch_size,
          .batches_per_step = config.optimization.accumulate,
          .shuffle_buffer = static_cast<std::size_t>(config.data.stream.shuffle_buffer),
          .keep_one_of = inputs.keep_one_of,
          .keep_which = inputs.keep_which,
          .pixels = inputs.pixels,
          .scaling = {},
          .seed = static_cast<std::uint64_t>(config.optimization.random_seed),
          .warning_seconds = static_cast<double>(config.ranks.stall_warning_s),
          .deadline_seconds = kShareOfTimeout * config.ranks.collective_timeout_s,
          .warn = {}};
}

}  // namespace kiln
