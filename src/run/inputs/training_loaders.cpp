#include "run/inputs/training_loaders.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "run/inputs/stream_inputs.h"

namespace kiln {
namespace {

constexpr double kShareOfMemory = 0.25;  // of the available memory

// File system types that <linux/magic.h> lacks; see statfs(2).
constexpr long kNfs = 0x6969, kCifs = 0xff534d42, kLustre = 0x0bd00bd0, kCeph = 0x00c36400,
               kGpfs = 0x47504653;

bool is_on_network(const std::string& path) {
  struct statfs found {};
  if (::statfs(path.c_str(), &found) != 0) return false;
  constexpr long kKinds[] = {kNfs,       kCifs,           kLustre,          kCeph,
                             kGpfs,      SMB_SUPER_MAGIC, SMB2_SUPER_MAGIC, FUSE_SUPER_MAGIC,
                             V9FS_MAGIC, AFS_SUPER_MAGIC};
  const auto kind = static_cast<long>(found.f_type);
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

std::size_t decoded_bytes(const Dataset& set, const TransformSpec& pixels) {
  return ImageCache::bytes_for(set.samples.size(), image_bytes(pixels));
}

// Sets the limit of each dataset, in proportion to its decoded size. If only one is cached, it gets
// all of `limit`.
void divide(std::size_t limit, std::size_t train, std::size_t valid, CacheChoice& choice) {
  double train_share = static_cast<double>(train) / static_cast<double>(train + valid);
  if (choice.valid == CacheKind::kNone) train_share = 1;
  if (choice.train == CacheKind::kNone) train_share = 0;
  choice.train_limit_bytes = static_cast<std::size_t>(static_cast<double>(limit) * train_share);
  choice.valid_limit_bytes = limit - choice.train_limit_bytes;
}

bool fits(std::size_t bytes, const Dataset& set, const CacheChoice& choice) {
  const std::size_t table = ImageCache::table_bytes(set.samples.size());
  return table <= choice.train_limit_bytes && bytes <= choice.train_limit_bytes - table;
}

// True if at least one file of the set fits into the training cache; usually the first one does.
bool fits_any_file(const Dataset& set, const CacheChoice& choice) {
  for (std::size_t i = 0; i < set.samples.size(); ++i)
    if (const auto bytes = stored_bytes(set, i); bytes && fits(*bytes, set, choice)) return true;
  return false;
}

std::string of_limit(std::size_t bytes, std::size_t limit) {
  return bytes_text(std::min(bytes, limit)) + " of at most " + bytes_text(limit);
}

CacheChoice choose_automatically(const DataConfig& config, const Sources& sources,
                                 const PixelPlan& pixels, std::size_t limit) {
  const std::size_t train = decoded_bytes(sources.train, pixels.train);
  const std::size_t valid = decoded_bytes(sources.valid, pixels.valid);
  const bool train_repeats = can_be_kept(pixels.train) && !sources.train.is_stream();
  const std::size_t wanted = (train_repeats ? train : 0) + valid;
  CacheChoice choice;
  if (wanted <= limit && train_repeats) {
    choice.train = choice.valid = CacheKind::kDecoded;
    choice.reason = "decoded images, " + of_limit(wanted, limit);
  } else if (is_on_network(config.train_path)) {
    choice.train = choice.valid = CacheKind::kBytes;
    choice.reason = "files as stored, at most " + bytes_text(limit) + " (network storage)";
  } else if (wanted <= limit) {
    choice.valid = CacheKind::kDecoded;
    choice.reason = "decoded validation images, " + of_limit(wanted, limit);
  } else {
    choice.reason = "off (decoded images need " + bytes_text(wanted) + ", limit " +
                    bytes_text(limit) + "; local files stay in the page cache)";
  }
  const bool all_decoded = choice.train != CacheKind::kBytes;
  divide(all_decoded ? std::min(limit, wanted) : limit, train, valid, choice);
  return choice;
}

}  // namespace

std::size_t cache_limit_bytes(int ranks_on_host) {
  return static_cast<std::size_t>(static_cast<double>(available_memory_bytes()) * kShareOfMemory /
                                  ranks_on_host);
}

CacheChoice choose_cache(const DataConfig& config, const Sources& sources, const PixelPlan& pixels,
                         std::size_t limit) {
  if (config.cache == CachePolicy::kAuto)
    return choose_automatically(config, sources, pixels, limit);
  CacheChoice choice;
  choice.reason = "off";
  if (config.cache == CachePolicy::kNone) return choice;
  const bool decoded = config.cache == CachePolicy::kDecoded, streams = sources.train.is_stream();
  if (decoded && !streams && !can_be_kept(pixels.train))
    throw Error(ErrorCode::kUserError,
                "--cache decoded requires a fixed size before the first random operation, but the "
                "operations of --transform-path '" +
                    config.transform_path + "' are " + pixels.train.chain->whole.summary() +
                    ": use --cache bytes or auto.");
  choice.valid = decoded ? CacheKind::kDecoded : CacheKind::kBytes;
  if (!streams) choice.train = choice.valid;
  const std::size_t train = decoded_bytes(sources.train, pixels.train);
  const std::size_t valid = decoded_bytes(sources.valid, pixels.valid);
  choice.reason = decoded ? "decoded images, " + of_limit(train + valid, limit)
                          : "files as stored, at most " + bytes_text(limit);
  divide(decoded ? std::min(limit, train + valid) : limit, train, valid, choice);
  const bool holds_one = decoded ? fits(image_bytes(pixels.train), sources.train, choice)
                                 : fits_any_file(sources.train, choice);
  if (!holds_one && !streams)
    throw Error(ErrorCode::kUserError,
                "The cache may take " + bytes_text(limit) +
                    ", a quarter of the available memory, too little for one " +
                    (decoded ? "decoded image" : "file") + " and its table: use --cache none.");
  return choice;
}

std::vector<std::uint32_t> training_order(const SampleTable& samples, std::uint64_t seed,
                                          int epoch) {
  return permutation(static_cast<std::uint32_t>(samples.size()),
                     {seed, static_cast<std::uint64_t>(epoch)});
}

SampledOrder epoch_order(const LoadingPlan& plan, const SampleTable& samples,
                         std::int64_t num_images, int epoch) {
  const auto count = static_cast<std::size_t>(num_images);
  if (plan.sample == Sampling::kShuffle) {
    SampledOrder shuffled{training_order(samples, plan.seed, epoch), {}};
    shuffled.order.resize(count);
    return shuffled;
  }
  return balanced_order(samples.labels(), count, plan.seed, static_cast<std::uint64_t>(epoch));
}

TrainingLoaders::TrainingLoaders(const LoadingPlan& plan, Sources& sources, const PixelPlan& pixels,
                                 const Division& division, const CacheChoice& cache,
                                 const HostBatchLayout& layout, FolderWatch::Warn warn,
                                 Timeline* timeline)
    : plan_(plan),
      sources_(sources),
      pixels_(pixels),
      division_(division),
      scaling_(layout.scaling),
      num_slots_(std::min(plan.threads.first, 4 + plan.threads.first / plan.batch_size) + 2),
      cache_bytes_(cache.train_limit_bytes + cache.valid_limit_bytes),
      pool_({.num_decoders = plan.threads.first,
             .max_decoders = plan.threads.most,
             .new_buffer = layout.new_buffer,
             .warn = warn,
             .timeline = timeline}),
      train_cache_(cache.train, sources.train.samples.size(), cache.train_limit_bytes),
      valid_cache_(cache.valid, sources.valid.samples.size(), cache.valid_limit_bytes),
      warn_(std::move(warn)) {}

BatchPlan TrainingLoaders::plan(const TransformSpec& pixels, int epoch) const {
  return {.batch_size = plan_.batch_size,
          .pixels = pixels,
          .scaling = scaling_,
          .seed = plan_.seed,
          .epoch = static_cast<std::uint64_t>(epoch),
          .num_slots = num_slots_};
}

std::unique_ptr<BatchLoader> TrainingLoaders::open_training(int epoch, int steps_done) {
  const SampledOrder all =
      epoch_order(plan_, sources_.train.samples, division_.images_per_epoch(), epoch);
  const Shard& shard = division_.train;
  const std::int64_t images_done = shard.images_per_step() / shard.num_ranks * steps_done;
  const auto still_to_come = [&](const std::vector<std::uint32_t>& values) {
    std::vector<std::uint32_t> mine = training_indices(values, shard);
    if (!mine.empty()) mine.erase(mine.begin(), mine.begin() + images_done);
    return mine;
  };
  BatchPlan wanted = plan(pixels_.train, epoch);
  wanted.order = still_to_come(all.order);
  wanted.repeats = still_to_come(all.repeats);
  return load_batches(sources_.train, pool_, std::move(wanted), &train_cache_);
}

void TrainingLoaders::begin_training(int epoch) {
  if (sources_.train.is_stream()) return;
  next_training_ = open_training(epoch, 0);
}

void TrainingLoaders::begin_validation(int epoch) {
  BatchPlan wanted = plan(pixels_.valid, epoch);
  wanted.order = validation_indices(static_cast<std::uint32_t>(sources_.valid.samples.size()),
                                    division_.valid);
  next_validation_ = load_batches(sources_.valid, pool_, std::move(wanted), &valid_cache_);
}

std::unique_ptr<Batches> TrainingLoaders::training(int epoch, int steps_done) {
  if (sources_.train.is_stream()) {
    if (!stream_) {
      StreamPlan wanted = stream_plan(plan_, sources_, pixels_, division_);
      wanted.scaling = scaling_;
      wanted.num_slots = num_slots_;
      wanted.warn = warn_;
      stream_.emplace(std::move(wanted), pool_, epoch, steps_done);
    }
    return stream_->epoch(epoch);
  }
  return next_training_ ? std::move(next_training_) : open_training(epoch, steps_done);
}

std::unique_ptr<BatchLoader> TrainingLoaders::validation(int epoch) {
  if (!next_validation_) begin_validation(epoch);
  return std::move(next_validation_);
}

std::unique_ptr<BatchLoader> TrainingLoaders::once(Dataset& set, std::vector<std::uint32_t> order,
                                                   int batch_size) {
  BatchPlan wanted = plan(pixels_.valid, 0);
  wanted.order = std::move(order);
  wanted.batch_size = batch_size;
  return load_batches(set, pool_, std::move(wanted));
}

long long TrainingLoaders::max_memory_bytes() const {
  const std::size_t batch_pair =
      plan(pixels_.train, 0).batch_bytes() + plan(pixels_.valid, 0).batch_bytes();
  const auto num_decoders = static_cast<std::size_t>(pool_.max_decoders());
  const std::size_t streamed =
      sources_.train.is_stream()
          ? StreamLoader::max_memory_bytes(stream_plan(plan_, sources_, pixels_, division_))
          : 0;
  const std::size_t bytes = streamed + static_cast<std::size_t>(num_slots_) * batch_pair +
                            LoaderThreads::kReadAheadBytes +
                            num_decoders * LoaderThreads::kDecoderBytes + cache_bytes_;
  return static_cast<long long>(bytes);
}

}  // namespace kiln
