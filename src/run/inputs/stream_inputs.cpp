#include "run/inputs/stream_inputs.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "data/dataset/listing.h"
#include "data/stream/record_stream.h"

namespace kiln {
namespace {

// The share of --collective-timeout for which a rank waits for its stream, so that it fails with
// the cause before the ranks that wait for it do.
constexpr double kShareOfTimeout = 0.9;

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::kParameterParsing, text);
}

// Throws the same as check_stream_options() for a stream of validation images.
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

constexpr std::size_t kPiece = 16 << 20;  // bytes in one broadcast

// The bytes of the stream, of which any count as progress.
class StreamPieces {
 public:
  StreamPieces(const TrainConfig& config, const std::string& name, Log& log)
      : name_(name),
        limits_(silence_limits(config.ranks)),
        warn_([&log](const std::string& text) { log.warning(text); }),
        silence_(watch_, limits_, warn_),
        bytes_(stream_path(config.data.valid_path, 0), watch_) {
    watch_.while_waiting = [this] {
      watch_.images = watch_.received.load();
      silence_.judge(name_);
    };
  }

  // Empty at the end.
  std::string next() {
    std::string piece(kPiece, '\0');
    std::size_t size = 0;
    try {
      for (std::size_t got = 1; got > 0 && size < kPiece; size += got)
        got = bytes_.read(piece.data() + size, kPiece - size);
    } catch (const StreamFault& fault) {
      throw error_of_stream(name_, fault);
    }
    piece.resize(size);
    return piece;
  }

 private:
  const std::string& name_;
  const SilenceLimits limits_;
  const StreamSilence::Warn warn_;
  StreamWatch watch_;
  StreamSilence silence_;
  ByteStream bytes_;
};

// Opens the file of `size` bytes that another rank of this host has written.
OpenFile open_file_of_host(const std::string& path, std::uint64_t size, const std::string& name) {
  std::string reason = "it is another file";
  try {
    if (OpenFile file(path); file.size() == size) return file;
  } catch (const std::system_error& fault) {
    reason = fault.code().message();
  }
  throw Error(ErrorCode::kUserError,
              name + ": the stream is in '" + path +
                  "', which this rank of the same host cannot open: " + reason +
                  ". Start the ranks of a host as one user, in one container.");
}

// Runs `action` of a Spool.
void in_spool(const std::string& name, const std::function<void()>& action) try {
  action();
} catch (const SpoolFault& fault) {
  throw Error(ErrorCode::kUserError,
              name + ": the folder for temporary files cannot hold the stream: " + fault.what() +
                  ". Set TMPDIR to a folder on a local disk with enough space for all of it.");
}

}  // namespace

SilenceLimits silence_limits(const RanksConfig& config) {
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
  const ClassWeights weights = optimization.class_weights.rule;
  if (weights == ClassWeights::kSqrt || weights == ClassWeights::kBalanced ||
      optimization.sample != Sampling::kShuffle)
    refuse(stream +
           ", whose class counts are unknown: --class-weights balanced and sqrt and --sample "
           "balanced need files.");
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

namespace {

// What the numbers of a stream are, as those of the validation images.
ClassIds::Numbers numbers_of(const Dataset& valid) {
  using Numbers = ClassIds::Numbers;
  if (valid.found.are_lines) return Numbers::kLines;
  return valid.first_label ? Numbers::kNames : Numbers::kLinesInRecords;
}

}  // namespace

StreamPlan stream_plan(const LoadingPlan& plan, const Sources& sources, const PixelPlan& pixels,
                       const Division& division) {
  RecordOptions records = plan.records;
  records.first_label = sources.train.first_label;
  return {.path = sources.train.root.string(),
          .name = sources.train.name,
          .classes = sources.train.classes,
          .numbers = numbers_of(sources.valid),
          .records = std::move(records),
          .steps_per_epoch = division.steps_per_epoch,
          .batch_size = plan.batch_size,
          .batches_per_step = plan.accumulate,
          .shuffle_buffer = plan.shuffle_buffer,
          .keep_one_of = division.keep_one_of,
          .keep_which = division.keep_which,
          .pixels = pixels.train,
          .seed = plan.seed,
          .silence = plan.silence};
}

OpenFile spool_valid_stream(World& world, const TrainConfig& config, Log& log) {
  const bool is_stream =
      config.data.split.data_path.empty() && is_stream_path(config.data.valid_path);
  if (world.broadcast(static_cast<char>(is_stream)) == 0) return {};
  const std::string name = "Validation dataset '" + stream_path(config.data.valid_path, 0) + "'";
  const std::vector<std::string>& hosts = world.hosts();
  const auto rank = static_cast<std::size_t>(world.rank());
  const auto writer =
      static_cast<std::size_t>(std::ranges::find(hosts, hosts[rank]) - hosts.begin());
  std::optional<StreamPieces> pieces;
  std::optional<Spool> spool;
  world.agree([&] {
    check_valid_stream(config.data);
    if (writer == rank) in_spool(name, [&] { spool.emplace(); });
    if (world.leads()) pieces.emplace(config, name, log);
  });
  std::string piece;
  std::uint64_t size = 0;
  do {
    world.agree([&] {
      if (pieces) piece = pieces->next();
    });
    piece = world.broadcast(piece);
    size += piece.size();
    world.agree([&] {
      if (spool) in_spool(name, [&] { spool->append(piece); });
    });
  } while (!piece.empty());
  OpenFile file;
  if (spool) file = spool->take();
  const std::vector<std::string> paths = world.gather(file.path().string());
  world.agree([&] {
    if (!spool) file = open_file_of_host(paths[writer], size, name);
  });
  return file;
}

}  // namespace kiln
