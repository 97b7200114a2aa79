#include "commands/bench_collective.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "commands/launch.h"
#include "run/prepare.h"
#include "run/rank_agreement.h"
#include "run/versions.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// A small message, gradient buckets of both sizes, and more than any cache holds.
constexpr std::int64_t kBytes[] = {4 << 10, 64 << 10, 1 << 20, 25 << 20, 100 << 20};
constexpr double kSecondsEach = 1;
constexpr int kLeastRepeats = 5, kMostRepeats = 500;
constexpr const char* kMpiSum = "MPI_Allreduce";

struct Spread {
  double median = 0, least = 0, most = 0;
};

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

class Bench {
 public:
  Bench(World& world, Communicator& communicator, at::Device device)
      : world_(world), communicator_(communicator), device_(device) {}

  Json measure(std::int64_t bytes) {
    const at::Tensor values =
        at::zeros({bytes / 4}, at::TensorOptions().dtype(at::kFloat).device(device_));
    const auto sum = [&] { return sum_once(values); };
    const auto mpi_sum = [&] { return mpi_sum_once(values); };
    sum();
    const int repeats = agreed_repeats(sum());
    std::vector<double> sums, mpi_sums;
    for (int i = 0; i < repeats; ++i) {  // in turn, so that both meet the same machine
      sums.push_back(sum());
      if (device_.is_cpu()) mpi_sums.push_back(mpi_sum());
    }
    return to_json(bytes, repeats, sums, mpi_sums);
  }

 private:
  double sum_once(const at::Tensor& values) {
    world_.barrier();
    const Clock::time_point begin = Clock::now();
    communicator_.wait(communicator_.all_reduce(values));
    if (device_.is_cuda()) torch::cuda::synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  // Inside the thread that calls MPI, so without the way there.
  double mpi_sum_once(const at::Tensor& values) {
    MpiThread& mpi = *world_.mpi();
    world_.barrier();
    const double before = mpi.seconds_of(kMpiSum);
    mpi.wait(mpi.start({Collective::Kind::kMpiSum, kMpiSum, values.data_ptr(),
                        static_cast<std::size_t>(values.numel()), Element::kFloat32, nullptr,
                        std::make_shared<at::Tensor>(values)}));
    return mpi.seconds_of(kMpiSum) - before;
  }

  int agreed_repeats(double seconds) {
    const double slowest = world_.sum({seconds}).front() / world_.size();
    return static_cast<int>(
        std::clamp<double>(kSecondsEach / slowest, kLeastRepeats, kMostRepeats));
  }

  Json to_json(std::int64_t bytes, int repeats, const std::vector<double>& sums,
               const std::vector<double>& mpi_sums) const {
    const Spread own = spread_of(sums);
    // Bytes that each rank must send at least: 2 (n - 1) / n of the buffer.
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

}  // namespace

int run(const BenchCollectiveConfig& config, Process& process) {
  Log& log = process.log;
  World& world = process.world;
  log.use_standard_error();
  if (const auto launch = launch_of(config.ranks, config.log_path, config.log_path_given))
    return run(*launch, process);
  world.join({.deadline_s = static_cast<double>(config.ranks.collective_timeout_s),
              .stall_warning_s = static_cast<double>(config.ranks.stall_warning_s)},
             /*expected_size=*/0, log);
  if (world.size() == 1)
    throw Error(ErrorCode::kUserError,
                "A sum over one process needs no communication: give --ranks N with N of 2 or "
                "more, or start this with mpirun.");
  log.speak_for_rank(world.rank());
  world.enter("measuring");
  Device device;
  world.agree([&] { device = choose_device(config.ranks.device, world.local_rank()); });
  require_one_job(world, /*options=*/{}, device);
  const std::unique_ptr<Communicator> communicator =
      join_communicator(world, config.ranks, config.log_path, device, log);
  Bench bench(world, *communicator, torch_device(device));
  Json json = {{"version", program_version()},
               {"device", device.description},
               {"ranks", world.size()},
               {"hosts", world.hosts()},
               {"sums", Json::array()}};
  for (const std::int64_t bytes : kBytes) json["sums"].push_back(bench.measure(bytes));
  if (world.leads()) std::printf("%s\n", json.dump(2).c_str());
  return 0;
}

}  // namespace kiln
