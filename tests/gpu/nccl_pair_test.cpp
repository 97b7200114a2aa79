// NCCL between two ranks on one GPU, without MPI. Each test forks both ranks before this process
// uses CUDA. NCCL takes them for two hosts, as each has its own NCCL_HOSTID, and connects them by
// sockets. The GPU switches between the processes, so no time here says how fast NCCL is.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <torch/nn/functional/loss.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "model/image_model.h"
#include "parallel/device/device.h"
#include "parallel/gradients/gradient_buckets.h"
#include "parallel/gradients/nccl.h"
#include "parallel/thread_ranks.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kKilled = -SIGKILL;
constexpr std::size_t kIdLength = 128;  // of make_nccl_id()
constexpr double kDeadline = 60;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Runs `work` in a child, which ends with 0, or 1 after a failed expectation or an exception.
pid_t fork_child(const std::function<void()>& work) {
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  try {
    work();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  std::fflush(nullptr);
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

// The exit code, or the negative signal. Kills the child after `patience`.
int end_of(pid_t child, milliseconds patience) {
  const auto end = Clock::now() + patience;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > end) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// One of the two processes. join() is a collective.
struct Peer {
  int rank;
  Device gpu;
  std::array<int, 2> pipe;  // rank 0 writes NCCL's ids, rank 1 reads them

  at::Device device() const { return {at::kCUDA, static_cast<at::DeviceIndex>(gpu.index)}; }

  std::unique_ptr<Communicator> join(double deadline_s = kDeadline) const {
    return make_nccl_communicator({.size = 2, .deadline_s = deadline_s, .join_group = [this] {
                                     return join_nccl_group({rank, 2, gpu.index, exchange_id()});
                                   }});
  }

 private:
  std::string exchange_id() const {
    std::string id(kIdLength, '\0');
    if (rank == 0) id = make_nccl_id();
    const ssize_t count =
        rank == 0 ? ::write(pipe[1], id.data(), kIdLength) : ::read(pipe[0], id.data(), kIdLength);
    if (count != kIdLength) throw InternalError("NCCL's id was not passed on");
    return id;
  }
};

void set_up_nccl(int rank) {
  ::setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  ::setenv("NCCL_NET", "Socket", 0);
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  ::setenv("NCCL_MAX_CTAS", "2", 0);
  keep_nccl_lanes_in_order();
}

class NcclPair : public testing::Test {
 protected:
  void SetUp() override {
    const pid_t child = fork_child([] {
      if (!choose_device(DeviceChoice::kAuto).is_cuda) ::_exit(77);
    });
    const int end = end_of(child, seconds(60));
    if (end == 77) GTEST_SKIP() << "needs a GPU";
    ASSERT_EQ(end, 0) << "the GPU cannot be used";
  }

  // How the two ranks ended. Rank 1 is killed when it outlives rank 0 by 10 seconds.
  static std::array<int, 2> run(const std::function<void(const Peer&)>& work,
                                seconds patience = seconds(120)) {
    std::array<int, 2> pipe{};
    if (::pipe(pipe.data()) != 0) throw InternalError("no pipe");
    std::array<pid_t, 2> children{};
    for (int rank = 0; rank < 2; ++rank)
      children[static_cast<std::size_t>(rank)] = fork_child([&] {
        ::close(pipe[rank == 0 ? 0 : 1]);
        set_up_nccl(rank);
        work({rank, choose_device(DeviceChoice::kCuda), pipe});
      });
    ::close(pipe[0]);
    ::close(pipe[1]);
    const int first = end_of(children[0], patience);
    return {first, end_of(children[1], seconds(10))};
  }

  static constexpr std::array<int, 2> kBothDone{0, 0};
};

// ---- work of one rank, on any device ----

// Rank r's contribution to the sum of `size` ranks is r + 1 times `values`.
void expect_sums(int rank, Communicator& communicator, const at::Device& device) {
  const int size = communicator.size();
  const int factor = size * (size + 1) / 2;
  for (const auto type : {at::kFloat, at::kDouble, at::kLong})
    for (const std::int64_t count : {1L, 1000L, device.is_cpu() ? 70001L : 25L << 18}) {
      const at::Tensor values = at::arange(count).remainder(50).to(type);
      std::vector<at::Tensor> sums;
      std::vector<Communicator::Ticket> tickets;
      for (int i = 0; i < 3; ++i) {
        sums.push_back((values * (rank + 1)).to(device));
        tickets.push_back(communicator.all_reduce(sums.back()));
      }
      for (const Communicator::Ticket ticket : tickets) communicator.wait(ticket);
      for (const at::Tensor& sum : sums)
        EXPECT_TRUE(at::equal(sum.cpu(), values * factor)) << type << " x " << count;
      const at::Tensor sent = (values + rank).to(device);
      communicator.broadcast(sent);
      EXPECT_TRUE(at::equal(sent.cpu(), values)) << type << " x " << count;
    }
}

std::unique_ptr<ImageModel> make_network(const at::Device& device) {
  static std::mutex generator;
  const std::lock_guard lock(generator);
  at::manual_seed(7);
  auto model = make_image_model({.model_name = "resnet18", .num_classes = 10});
  model->prepare(device);
  model->train(false);  // BatchNorm would see this rank's images alone
  return model;
}

// One step of gradient descent on images [first, first + count) of eight.
void step(ImageModel& model, GradientBuckets& buckets, int first, int count,
          const at::Device& device) {
  const at::Tensor images = at::arange(8 * 3 * 32 * 32).to(at::kFloat).mul(0.7).sin();
  const at::Tensor labels = at::arange(8);
  const auto mine = [&](const at::Tensor& all) { return all.narrow(0, first, count).to(device); };
  buckets.clear();
  buckets.reduce_on_next_backward();
  const at::Tensor logits =
      model.forward(mine(images.view({8, 3, 32, 32})).contiguous(at::MemoryFormat::ChannelsLast));
  (torch::nn::functional::cross_entropy(
       logits, mine(labels),
       torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum)) /
   8)
      .backward();
  buckets.wait();
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].sub_(buckets.gradients()[i], 1e-3);
}

// Two ranks with half of the images each, against one process with all of them. Returns the largest
// difference of a weight as a share of the largest weight of its tensor.
double train_beside_one_process(int rank, Communicator& communicator, const at::Device& device,
                                const BucketPlan& plan) {
  const auto alone = make_local_communicator();
  const auto ours = make_network(device), reference = make_network(device);
  GradientBuckets shared(ours->parameters(), plan, communicator);
  GradientBuckets whole(reference->parameters(), {}, *alone);
  for (int i = 0; i < 5; ++i) {
    step(*ours, shared, 4 * rank, 4, device);
    step(*reference, whole, 0, 8, device);
  }
  double worst = 0;
  const auto expected = reference->parameters();
  const auto found = ours->parameters();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const at::Tensor of_rank_0 = found[i].detach().flatten().clone();
    communicator.broadcast(of_rank_0);
    EXPECT_TRUE(at::equal(of_rank_0, found[i].detach().flatten())) << "replicas differ: " << i;
    const double gap = (found[i] - expected[i]).abs().max().item<double>();
    worst = std::max(worst, gap / std::max(1e-3, expected[i].abs().max().item<double>()));
  }
  return worst;
}

// The work itself, where there is no GPU: ranks as threads. In a child too: LibTorch takes its CUDA
// hooks at its first use in a process, and the children of later tests would inherit the empty
// ones.
TEST(NcclPairWork, IsRightOnTheCpu) {
  const pid_t child = fork_child([] {
    run_ranks(2, [](int rank, ThreadCommunicator& communicator) {
      expect_sums(rank, communicator, at::kCPU);
      EXPECT_LT(train_beside_one_process(rank, communicator, at::kCPU, {}), 1e-4);
    });
  });
  EXPECT_EQ(end_of(child, seconds(120)), 0);
}

// ---- on the GPU ----

TEST_F(NcclPair, SumsAndBroadcastsAreThoseOfTheCpu) {
  EXPECT_EQ(run([](const Peer& peer) {
              const auto communicator = peer.join();
              expect_sums(peer.rank, *communicator, peer.device());
              const auto lane = communicator->second_lane("small sum");
              expect_sums(peer.rank, *lane, peer.device());
            }),
            kBothDone);
}

TEST_F(NcclPair, TwoRanksTrainAsOneProcessDoes) {
  ::setenv("NVIDIA_TF32_OVERRIDE", "0", 1);
  EXPECT_EQ(run([](const Peer& peer) {
              const auto communicator = peer.join();
              const auto train = [&](const BucketPlan& plan) {
                return train_beside_one_process(peer.rank, *communicator, peer.device(), plan);
              };
              EXPECT_LT(train({.first_bytes = 64 << 10, .bytes = 64 << 10}), 1e-4);
              EXPECT_LT(train({}), 1e-4);
            }),
            kBothDone);
  ::unsetenv("NVIDIA_TF32_OVERRIDE");
}

// The side of the matrices that keep the GPU busy; KILN_LOAD_SIDE makes them smaller.
std::int64_t load_side() {
  const char* text = std::getenv("KILN_LOAD_SIDE");
  return text == nullptr ? 2048 : std::atol(text);
}

// Without the order between the streams a sum would see values of too early, or be read too soon.
TEST_F(NcclPair, SumsComeAfterTheWorkBeforeThemAndBeforeTheWorkAfterThem) {
  EXPECT_EQ(
      run([](const Peer& peer) {
        const auto communicator = peer.join();
        const auto on_gpu = at::TensorOptions().device(peer.device());
        const at::Tensor values = at::zeros({1000}, on_gpu);
        at::Tensor load = at::eye(load_side(), on_gpu);
        const auto keep_busy = [&] {
          for (int i = 0; i < 8; ++i) load = at::mm(load, load);
        };
        std::vector<at::Tensor> sums;
        for (int i = 0; i < 200; ++i) {
          keep_busy();
          values.fill_((peer.rank + 1) * i).mul_(load[0][0]);
          const Communicator::Ticket ticket = communicator->all_reduce(values);
          keep_busy();
          communicator->wait(ticket);
          sums.push_back(values.clone());
          values.zero_();
        }
        const at::Tensor expected = (at::arange(200) * 3).to(at::kFloat);
        EXPECT_TRUE(at::equal(at::stack(sums).cpu(), expected.unsqueeze(1).expand({200, 1000})));
      }),
      kBothDone);
}

// Sums until one throws. Returns when that was, in seconds after `begin`.
double seconds_until_failure(Communicator& communicator, const at::Device& device,
                             Clock::time_point begin) {
  const at::Tensor values = at::ones({1000}, device);
  try {
    while (seconds_since(begin) < 60) {
      communicator.wait(communicator.all_reduce(values));
      values.cpu();
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeoutOccured) << error.message();
    std::cout << "rank 0: " << error.message() << "\n";
    EXPECT_EQ(at::ones({3}, device).sum().item<double>(), 3) << "the GPU no longer answers";
    return seconds_since(begin);
  }
  ADD_FAILURE() << "no sum failed";
  return 0;
}

// `leave` ends or stops rank 1 after three sums.
void expect_failure_when(const Peer& peer, const std::function<void()>& leave, double deadline_s) {
  const auto communicator = peer.join(deadline_s);
  const at::Tensor values = at::ones({1000}, peer.device());
  for (int i = 0; i < 3; ++i) communicator->wait(communicator->all_reduce(values));
  EXPECT_EQ(values[0].item<float>(), 8);
  if (peer.rank == 1) leave();
  EXPECT_LT(seconds_until_failure(*communicator, peer.device(), Clock::now()), deadline_s + 3);
}

TEST_F(NcclPair, ARankThatDiesFailsTheOther) {
  EXPECT_EQ(run(
                [](const Peer& peer) {
                  expect_failure_when(
                      peer, [] { ::_exit(9); }, 10);
                },
                seconds(30)),
            (std::array<int, 2>{0, 9}));
}

TEST_F(NcclPair, ARankThatStopsFailsTheOtherAtTheDeadline) {
  EXPECT_EQ(run(
                [](const Peer& peer) {
                  expect_failure_when(
                      peer, [] { ::raise(SIGSTOP); }, 5);
                },
                seconds(30)),
            (std::array<int, 2>{0, kKilled}));
}

std::ptrdiff_t num_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST_F(NcclPair, EndsTogetherOrSecondsApartAndLeavesNoThreads) {
  EXPECT_EQ(run([](const Peer& peer) {
              const at::Tensor values = at::ones({1000}, peer.device());
              const auto join_and_leave = [&](seconds late) {
                const auto communicator = peer.join();
                communicator->wait(communicator->all_reduce(values));
                values.cpu();
                std::this_thread::sleep_for(peer.rank * late);
              };
              join_and_leave(seconds(0));
              const std::ptrdiff_t before = num_threads();
              join_and_leave(seconds(0));
              join_and_leave(seconds(3));
              for (int i = 0; i < 100 && num_threads() > before; ++i)
                std::this_thread::sleep_for(milliseconds(20));
              EXPECT_LE(num_threads(), before);
            }),
            kBothDone);
}

// KILN_SOAK_SECONDS: how long.
TEST_F(NcclPair, ManySmallSumsNeverHang) {
  const char* text = std::getenv("KILN_SOAK_SECONDS");
  const int length = text == nullptr ? 2 : std::atoi(text);
  const auto work = [length](const Peer& peer) {
    const auto communicator = peer.join();
    const auto on_gpu = at::TensorOptions().device(peer.device());
    const at::Tensor values = at::empty({1024}, on_gpu), stop = at::zeros({1}, on_gpu);
    const Clock::time_point begin = Clock::now();
    std::int64_t num_sums = 0;
    double starting_s = 0;
    while (stop.item<float>() == 0) {
      for (int i = 0; i < 100; ++i, ++num_sums) {
        values.fill_(peer.rank + 1);
        const Clock::time_point start = Clock::now();
        const Communicator::Ticket ticket = communicator->all_reduce(values);
        starting_s += seconds_since(start);
        communicator->wait(ticket);
      }
      ASSERT_EQ(values.sum().item<float>(), 3 * 1024) << "after " << num_sums << " sums";
      stop.fill_(seconds_since(begin) > length);
      communicator->broadcast(stop);
    }
    if (peer.rank == 0)
      std::cout << "soak: " << num_sums << " sums in " << seconds_since(begin)
                << " s; to start one takes " << 1e6 * starting_s / static_cast<double>(num_sums)
                << " us\n"
                << std::flush;
  };
  EXPECT_EQ(run(work, seconds(length + 90)), kBothDone);
}

}  // namespace
}  // namespace kiln
