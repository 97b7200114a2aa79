#include "run/inputs/stream_inputs.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "data/dataset/readers.h"
#include "data/stream/stream_source.h"

namespace kiln {
namespace {

// The share of --collective-timeout for which a rank waits for its stream, so that it fails with
// the cause before the ranks that wait for it do.
constexpr double kShareOfTimeout = 0.9;

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::kParameterParsing, text);
}

// Returns the path with links resolved, as far as it exists.
std::filesystem::path resolved(const std::string& path) {
  std::error_code fault;
  std::filesystem::path place = std::filesystem::weakly_canonical(path, fault);
  return fault ? std::filesystem::path(path) : place;
}

}  // namespace

StreamSilence::Limits silence_limits(const RanksConfig& config) {
  return {.warning_seconds = config.stall_warning_s(),
          .deadline_seconds = kShareOfTimeout * config.collective_timeout_s};
}

Dataset stream_dataset(const DataConfig& config, const Dataset& valid) {
  Dataset set;
  set.kind = Dataset::Kind::kStream;
  set.root = config.train_path;
  set.name = "Training dataset";
  set.classes = valid.classes;  // with --classes, those of its file
  set.first_label = config.records.first_label ? config.records.first_label : valid.first_label;
  set.exif = exif_of(set, config.records);
  set.schema_json = schema_text(set.classes);
  return set;
}

void check_stream_options(const TrainConfig& config, const Sources& sources, int num_ranks) {
  const std::string& path = config.data.train_path;
  const bool has_steps = config.data.stream.steps_per_epoch > 0;
  if (!sources.train.is_stream()) {
    if (config.data.stream.by_record)
      refuse("--shard-by record is for streams, but --train-data-path '" + path +
             "' has files: use --shard-by rank.");
    if (!has_steps) return;
    refuse("--steps-per-epoch is for streams, but the length of --train-data-path '" + path +
           "' is known: leave it out, or limit the run with --steps.");
  }
  const OptimizationConfig& optimization = config.optimization;
  const std::string stream = "--train-data-path '" + path + "' is a stream";
  if (!has_steps)
    refuse(stream +
           ", whose length is unknown: give --steps-per-epoch, the number of images divided by the "
           "global batch.");
  if (optimization.class_weights != ClassWeights::kNone ||
      optimization.sample != Sampling::kShuffle)
    refuse(stream +
           ", whose class counts are unknown: --class-weights and --sample balanced need files, "
           "such as those of `kiln pack`.");
  if (optimization.folds > 0)
    refuse(stream + ", and --folds needs images that can be read again: give files.");
  if (num_ranks > 1 && !config.data.has_train_shard)
    refuse(stream +
           ", which can only be read once: give each rank its own stream, with {rank} in the path "
           "for its number, or use one rank.");
}

void refuse_split_of_stream(const std::string& path) {
  if (is_stream_path(path))
    refuse("--data-path '" + path +
           "' is a stream, which cannot be split: give --train-data-path and --valid-data-path.");
}

void check_valid_stream(const DataConfig& config) {
  const std::string stream = "--valid-data-path '" + config.valid_path + "' is a stream";
  if (config.has_valid_shard)
    refuse(stream +
           ", which rank 0 reads for all, but with --shard-by none each host has its own "
           "validation images: use --shard-by train, or give files.");
  if (resolved(config.valid_path) == resolved(config.train_path))
    refuse(
        stream +
        ", and --train-data-path is the same one, which can only be read once. Give each its own.");
}

StreamLoader::Plan stream_plan(const LoadingPlan& plan, const Sources& sources,
                               const PixelPlan& pixels, const Division& division) {
  RecordOptions records = plan.records;
  records.first_label = sources.train.first_label;
  return {.path = sources.train.root.string(),
          .name = sources.train.name,
          .classes = sources.train.classes,
          .reads_numbers = sources.valid.found.reads_numbers,
          .records = std::move(records),
          .steps_per_epoch = division.steps_per_epoch,
          .batch_size = plan.batch_size,
          .batches_per_step = plan.accumulate,
          .shuffle_buffer = plan.shuffle_buffer,
          .keep_one_of = division.keep_one_of,
          .keep_which = division.keep_which,
          .pixels = pixels.train,
          .pixels_of = [&pixels](int epoch) { return pixels.of_epoch(epoch); },
          .scaling = {},
          .seed = plan.seed,
          .silence = plan.silence,
          .warn = {}};
}

}  // namespace kiln
