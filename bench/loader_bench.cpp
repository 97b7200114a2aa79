#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/platform/installation.h"
#include "base/random.h"
#include "base/system.h"
#include "data/dataset/dataset.h"
#include "data/loader/batch_loader.h"
#include "kiln_bench.h"
#include "record/vocabulary.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

struct LoaderConfig {
  std::string data;
  int size, batch_size, passes, step_ms;
  int threads, read_ahead;  // 0: auto
  Augment augment;
};

struct Pass {
  double seconds = 0, wait_seconds = 0;
  LoaderTimes times;
  long long images = 0, bad_images = 0, resident_bytes = 0;
};

class LoaderBench {
 public:
  LoaderBench(const LoaderConfig& config, Dataset& set, int threads)
      : config_(config),
        set_(set),
        pool_({.num_decoders = threads, .read_ahead = config.read_ahead}) {}

  Pass run(int number) {
    const Stopwatch watch;
    Pass pass;
    const std::unique_ptr<BatchLoader> loader = open(number);
    while (const HostBatch* batch = loader->next()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(config_.step_ms));
      pass.images += batch->count;
      pass.bad_images += batch->nominal - batch->count;
      loader->take_faults();
    }
    pass.seconds = watch.seconds();
    pass.wait_seconds = loader->wait_seconds();
    pass.times = loader->times();
    pass.resident_bytes = resident_memory_bytes();
    return pass;
  }

 private:
  std::unique_ptr<BatchLoader> open(int number) {
    TransformSpec pixels{.output = {config_.size, config_.size},
                         .short_side = usual_short_side(config_.size),
                         .augment = config_.augment};
    const auto epoch = static_cast<std::uint64_t>(number);
    return load_batches(
        set_, pool_,
        {.order = permutation(static_cast<std::uint32_t>(set_.samples.size()), {1, epoch}),
         .batch_size = config_.batch_size,
         .pixels = pixels,
         .scaling = Normalization{{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}},
         .seed = 1,
         .epoch = epoch,
         .num_slots = pool_.num_decoders() + 2});
  }

  const LoaderConfig& config_;
  Dataset& set_;
  LoaderThreads pool_;
};

double rate_of(const Pass& pass) {
  return static_cast<double>(pass.images) / pass.seconds;
}

// Microseconds per image of one stage.
double microseconds(double seconds, const Pass& pass) {
  return pass.images == 0 ? 0 : seconds * 1e6 / static_cast<double>(pass.images);
}

Json to_json(const LoaderConfig& config, const std::vector<Pass>& passes, int threads) {
  std::vector<Pass> sorted = passes;
  std::sort(sorted.begin(), sorted.end(),
            [](const Pass& a, const Pass& b) { return rate_of(a) < rate_of(b); });
  const Pass& middle = sorted[sorted.size() / 2];
  Json resident = Json::array();
  for (const Pass& pass : passes) resident.push_back(pass.resident_bytes);
  return {
      {"version", program_version()},
      {"data", config.data},
      {"images", middle.images},
      {"bad_images", middle.bad_images},
      {"size", config.size},
      {"augment", augment_name(config.augment)},
      {"batch_size", config.batch_size},
      {"threads", threads},
      {"passes", passes.size()},
      {"images_per_second", rate_of(middle)},
      {"images_per_second_least", rate_of(sorted.front())},
      {"images_per_second_most", rate_of(sorted.back())},
      {"megabytes_per_second", static_cast<double>(middle.times.bytes_read) / middle.seconds / 1e6},
      {"microseconds_per_image",
       {{"read", microseconds(middle.times.read_seconds, middle)},
        {"decode", microseconds(middle.times.pixels.decode, middle)},
        {"resample", microseconds(middle.times.pixels.resample, middle)},
        {"augment", microseconds(middle.times.pixels.augment, middle)},
        {"to_floats", microseconds(middle.times.scale_seconds, middle)},
        {"waited_for", microseconds(middle.wait_seconds, middle)}}},
      {"step_ms", config.step_ms},
      {"share_waited", middle.wait_seconds / middle.seconds},
      {"peak_memory_bytes", peak_memory_bytes()},
      {"resident_bytes_after_passes", resident}};
}

Json measured(const LoaderConfig& config, Log& log) {
  Dataset set = read_dataset(config.data, config.data);
  const int threads = config.threads > 0 ? config.threads : usable_cpus();
  keep_freed_memory();
  LoaderBench bench(config, set, threads);
  log.info("first pass over " + std::to_string(set.samples.size()) +
           " images, which warms the page cache");
  bench.run(0);
  std::vector<Pass> passes;
  for (int number = 1; number <= config.passes; ++number) {
    passes.push_back(bench.run(number));
    log.info("pass " + std::to_string(number) + " of " + std::to_string(config.passes) + ": " +
             std::to_string(std::lround(rate_of(passes.back()))) + " images/s");
  }
  return to_json(config, passes, threads);
}

}  // namespace

void bench_loader(Words& words, Process& process) {
  const LoaderConfig config{.data = words.take("data", ""),
                            .size = words.take_number("size", 224, 16),
                            .batch_size = words.take_number("batch-size", 64),
                            .passes = words.take_number("passes", 3),
                            .step_ms = words.take_number("step-ms", 0, 0),
                            .threads = words.take_number("threads", 0),
                            .read_ahead = words.take_number("read-ahead", 0),
                            .augment = parse_augment(words.take("augment", "standard"))};
  words.finish();
  try {
    // A path need not be valid UTF-8.
    constexpr auto kReplace = Json::error_handler_t::replace;
    std::printf("%s\n", measured(config, process.log).dump(2, ' ', false, kReplace).c_str());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kModuleOutOfMemory,
                "Out of memory: use a smaller --batch-size or --size, fewer --threads, or a "
                "machine with more memory.");
  }
}

}  // namespace kiln
