#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <mpi.h>
#include <torch/cuda.h>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/platform/installation.h"
#include "base/system.h"
#include "cli/options.h"
#include "cli/settings.h"
#include "kiln_bench.h"
#include "parallel/processors/processors.h"
#include "run/prepare/rank_agreement.h"
#include "train/precision.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

// Two small messages, gradient buckets of both sizes, and a message larger than any CPU cache.
constexpr std::int64_t kBytes[] = {4 << 10, 64 << 10, 1 << 20, 25 << 20, 100 << 20};
constexpr double kSecondsEach = 1;
constexpr int kLeastRepeats = 5, kMaxRepeats = 500;

// Measures sums of one size. `sum` returns its seconds; `mean` averages a number over the ranks.
Json measured(std::int64_t bytes, int num_ranks, const std::function<double()>& sum,
              const std::function<double(double)>& mean) {
  sum();
  const int repeats =
      static_cast<int>(std::clamp<double>(kSecondsEach / mean(sum()), kLeastRepeats, kMaxRepeats));
  std::vector<double> seconds(static_cast<std::size_t>(repeats));
  for (double& each : seconds) each = sum();
  const Spread spread = spread_of(seconds);
  // The minimum that each rank must send: 2 (n - 1) / n of the buffer.
  const double on_the_wire = 2.0 * (num_ranks - 1) / num_ranks * static_cast<double>(bytes);
  return {{"bytes", bytes},
          {"repeats", repeats},
          {"seconds", spread.median},
          {"seconds_least", spread.least},
          {"seconds_most", spread.most},
          {"bus_gigabytes_per_second", on_the_wire / spread.median / 1e9}};
}

}  // namespace

void bench_collective(Words& words, Process& process) {
  RanksConfig ranks;
  ranks.device = words.take_device();
  words.finish();
  World& world = process.world;
  world.init({}, /*expected_size=*/0, process.log);
  if (world.size() == 1)
    throw Error(ErrorCode::kUserError,
                "There is only one process, so there is nothing to sum with: start it with "
                "mpirun -np 2.");
  process.log.speak_for_rank(world.rank());
  Device device;
  world.agree([&] { device = choose_device(ranks.device, world.local_rank()); });
  bind_to_own_cores(world, device.numa_node);
  world.enter("measuring");
  require_one_job(world, Settings(*find_command("train")), device);
  const std::unique_ptr<Communicator> communicator =
      join_communicator(world, ranks, "logs", device, process.log);
  Json json = {{"version", program_version()},
               {"device", device.description},
               {"ranks", world.size()},
               {"hosts", world.hosts()},
               {"sums", Json::array()}};
  for (const std::int64_t bytes : kBytes) {
    const at::Tensor values =
        at::zeros({bytes / 4}, at::TensorOptions().dtype(at::kFloat).device(torch_device(device)));
    const auto sum = [&] {
      world.barrier();
      const Stopwatch watch;
      communicator->wait(communicator->all_reduce(values));
      if (device.is_cuda) torch::cuda::synchronize();
      return watch.seconds();
    };
    const auto mean = [&](double value) { return world.sum({value}).front() / world.size(); };
    json["sums"].push_back(measured(bytes, world.size(), sum, mean));
  }
  if (world.leads()) std::printf("%s\n", json.dump(2).c_str());
}

void bench_mpi(Words& words) {
  words.finish();
  int rank = 0, size = 1;
  MPI_Init(nullptr, nullptr);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Json json = {{"ranks", size}, {"sums", Json::array()}};
  for (const std::int64_t bytes : kBytes) {
    std::vector<float> values(static_cast<std::size_t>(bytes / 4));
    const auto sum = [&] {
      MPI_Barrier(MPI_COMM_WORLD);
      const Stopwatch watch;
      MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT,
                    MPI_SUM, MPI_COMM_WORLD);
      return watch.seconds();
    };
    const auto mean = [&](double value) {
      MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
      return value / size;
    };
    json["sums"].push_back(measured(bytes, size, sum, mean));
  }
  if (rank == 0) std::printf("%s\n", json.dump(2).c_str());
  MPI_Finalize();
}

}  // namespace kiln
