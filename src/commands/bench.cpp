#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/cuda.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "base/system.h"
#include "data/loader/batch_loader.h"
#include "parallel/processors/binding.h"
#include "run/prepare/prepare.h"
#include "run/prepare/rank_agreement.h"
#include "run/process/versions.h"
#include "tools/commands.h"
#include "tools/inspect/spread.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

// Two small messages, gradient buckets of both sizes, and a message larger than any CPU cache.
constexpr std::int64_t kBytes[] = {4 << 10, 64 << 10, 1 << 20, 25 << 20, 100 << 20};
constexpr double kSecondsEach = 1;
constexpr int kLeastRepeats = 5, kMostRepeats = 500;
constexpr const char* kMpiAllReduce = "MPI_Allreduce";

class CollectiveBench {
 public:
  CollectiveBench(World& world, Communicator& communicator, at::Device device)
      : world_(world), communicator_(communicator), device_(device) {}

  Json measure(std::int64_t bytes) {
    const at::Tensor values =
        at::zeros({bytes / 4}, at::TensorOptions().dtype(at::kFloat).device(device_));
    const auto sum = [&] { return sum_once(values); };
    const auto mpi_sum = [&] { return mpi_sum_once(values); };
    sum();
    const int repeats = agreed_repeats(sum());
    std::vector<double> sums, mpi_sums;
    for (int i = 0; i < repeats; ++i) {  // interleaved, so that both see the same conditions
      sums.push_back(sum());
      if (device_.is_cpu()) mpi_sums.push_back(mpi_sum());
    }
    return to_json(bytes, repeats, sums, mpi_sums);
  }

 private:
  double sum_once(const at::Tensor& values) {
    world_.barrier();
    const Stopwatch watch;
    communicator_.wait(communicator_.all_reduce(values));
    if (device_.is_cuda()) torch::cuda::synchronize();
    return watch.seconds();
  }

  // Measured inside the MPI thread, so it excludes the handover to that thread.
  double mpi_sum_once(const at::Tensor& values) {
    MpiThread& mpi = *world_.mpi();
    world_.barrier();
    const double before = mpi.seconds_of(kMpiAllReduce);
    mpi.wait(mpi.start({Collective::Kind::kMpiAllReduce, kMpiAllReduce, values.data_ptr(),
                        static_cast<std::size_t>(values.numel()), Element::kFloat32, nullptr,
                        std::make_shared<at::Tensor>(values)}));
    return mpi.seconds_of(kMpiAllReduce) - before;
  }

  int agreed_repeats(double seconds) {
    const double mean_seconds = world_.sum({seconds}).front() / world_.size();
    return static_cast<int>(
        std::clamp<double>(kSecondsEach / mean_seconds, kLeastRepeats, kMostRepeats));
  }

  Json to_json(std::int64_t bytes, int repeats, const std::vector<double>& sums,
               const std::vector<double>& mpi_sums) const {
    const Spread own = spread_of(sums);
    // The minimum that each rank must send: 2 (n - 1) / n of the buffer.
    const double on_the_wire = 2.0 * (world_.size() - 1) / world_.size() * bytes;
    Json json = {
        {"bytes", bytes},           {"repeats", repeats},
        {"seconds", own.median},    {"seconds_least", own.least},
        {"seconds_most", own.most}, {"bus_gigabytes_per_second", on_the_wire / own.median / 1e9}};
    if (mpi_sums.empty()) return json;
    const Spread mpi = spread_of(mpi_sums);
    json["mpi_allreduce_seconds"] = mpi.median;
    json["mpi_allreduce_bus_gigabytes_per_second"] = on_the_wire / mpi.median / 1e9;
    json["speed_ratio"] = mpi.median / own.median;
    return json;
  }

  World& world_;
  Communicator& communicator_;
  at::Device device_;
};

struct Pass {
  double seconds = 0, wait_seconds = 0;
  LoaderTimes times;
  long long images = 0, bad_images = 0, resident_bytes = 0;
};

class LoaderBench {
 public:
  LoaderBench(const BenchLoaderConfig& config, Dataset& set, int threads)
      : config_(config),
        set_(set),
        pool_({.num_decoders = threads,
               .read_ahead = config.read_ahead,
               .num_readers = config.read_threads}) {}

  Pass run(int number) {
    const Stopwatch watch;
    Pass pass;
    BatchLoader loader = open(number);
    while (const HostBatch* batch = loader.next()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(config_.step_ms));
      pass.images += batch->count;
      pass.bad_images += batch->nominal - batch->count;
      loader.take_faults();
    }
    pass.seconds = watch.seconds();
    pass.wait_seconds = loader.wait_seconds();
    pass.times = loader.times();
    pass.resident_bytes = resident_memory_bytes();
    return pass;
  }

 private:
  BatchLoader open(int number) {
    TransformSpec pixels{.output = {config_.size, config_.size},
                         .short_side = usual_short_side(config_.size),
                         .augment = config_.augment};
    const auto epoch = static_cast<std::uint64_t>(number);
    return BatchLoader(
        set_, pool_,
        {.order = permutation(static_cast<std::uint32_t>(set_.samples.size()), {1, epoch}),
         .batch_size = config_.batch_size,
         .pixels = pixels,
         .scaling = Normalization{{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}},
         .seed = 1,
         .epoch = epoch,
         .num_slots = pool_.num_decoders() + 2});
  }

  const BenchLoaderConfig& config_;
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

Json to_json(const BenchLoaderConfig& config, const std::vector<Pass>& passes, int threads) {
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

Json measured(const BenchLoaderConfig& config, Log& log) {
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

int run(const BenchCollectiveConfig& config, Process& process) {
  Log& log = process.log;
  World& world = process.world;
  log.use_standard_error();
  if (const auto launch = launch_of(config.ranks, config.log_path, config.log_path_given))
    return run(*launch, process);
  world.join({.deadline_s = static_cast<double>(config.ranks.collective_timeout_s),
              .stall_warning_s = config.ranks.stall_warning_s()},
             /*expected_size=*/0, log);
  if (world.size() == 1)
    throw Error(ErrorCode::kUserError,
                "There is only one process, so there is nothing to communicate: use --ranks with 2 "
                "or more, or start the command with mpirun.");
  log.speak_for_rank(world.rank());
  Device device;
  world.agree([&] { device = choose_device(config.ranks.device, world.local_rank()); });
  bind_to_own_cores(world, device.numa_node);
  world.enter("measuring");
  require_one_job(world, /*options=*/{}, device);
  const std::unique_ptr<Communicator> communicator =
      join_communicator(world, config.ranks, config.log_path, device, log);
  CollectiveBench bench(world, *communicator, torch_device(device));
  Json json = {{"version", program_version()},
               {"device", device.description},
               {"ranks", world.size()},
               {"hosts", world.hosts()},
               {"sums", Json::array()}};
  for (const std::int64_t bytes : kBytes) json["sums"].push_back(bench.measure(bytes));
  if (world.leads()) std::printf("%s\n", json.dump(2).c_str());
  return 0;
}

int run(const BenchLoaderConfig& config, Process& process) {
  process.log.use_standard_error();
  try {
    // A path need not be valid UTF-8.
    constexpr auto kReplace = Json::error_handler_t::replace;
    std::printf("%s\n", measured(config, process.log).dump(2, ' ', false, kReplace).c_str());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kModuleOutOfMemory,
                "Out of memory: use a smaller --batch-size or --size, fewer --threads, or a "
                "machine with more memory.");
  }
  return 0;
}

}  // namespace kiln
