#include "parallel/gradients/nccl.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <mutex>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "parallel/device/device.h"
#include "parallel/ranks/peer_status.h"

namespace fs = std::filesystem;

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kLeastNccl = 21800;
constexpr double kClosePatience = 10;  // seconds to wait for the other ranks at the end
constexpr milliseconds kLookEvery(100);
// Of the watchdog thread, which queries the other ranks in it; longer means suspended.
constexpr std::chrono::seconds kLongestTurn(4);

NcclType type_of(const at::Tensor& values) {
  using enum NcclType;
  return type_among<NcclType>(values, {kFloat32, kFloat64, kInt64}, "NCCL");
}

// State shared by the communicator, its watchdog thread and the thread that releases NCCL. All
// three share ownership, since the last one may hang in the driver and is then abandoned.
struct Shared {
  struct Work {
    const char* name;
    std::uint64_t place;
    Clock::time_point begin;  // when it was started or the preceding work finished
  };

  Shared(const NcclPlan& plan, std::unique_ptr<NcclGroup> given)
      : deadline_s(plan.deadline_s), watch(plan.watch), group(std::move(given)) {}

  const double deadline_s;
  const NcclWatch watch;

  // Guards every call into the group; locked before `mutex`, never while holding it.
  std::timed_mutex calling;
  std::unique_ptr<NcclGroup> group;  // until it is released
  std::uint64_t num_seen = 0;        // marks known to have been reached
  bool has_uncounted = false;        // marks

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> works;  // started and not known to have finished; initially the setup
  std::exception_ptr failure;
  bool failure_thrown = false, closing = false, is_free = false;

  void throw_if_failed() {
    const std::lock_guard lock(mutex);
    if (!failure) return;
    failure_thrown = true;
    changed.notify_all();
    std::rethrow_exception(failure);
  }
};

// Has the watchdog see when the collectives started so far are done. Call it under `calling`.
void count(Shared& shared) {
  if (std::exchange(shared.has_uncounted, false) && shared.group) shared.group->count();
}

// Releases NCCL on a separate thread, since that may hang.
void let_go(const std::shared_ptr<Shared>& shared, bool politely) {
  std::thread([shared, politely] {
    // A caller stuck in NCCL holds `calling`; then nothing can be released.
    const std::unique_lock calling(shared->calling, std::chrono::seconds(5));
    if (!calling.owns_lock()) return;
    try {
      if (politely)
        shared->group->close(kClosePatience);
      else
        shared->group->abort();
      shared->group.reset();
    } catch (const std::exception&) {
      // CUDA is broken and the process is about to exit. Destroying the events would throw.
      static_cast<void>(shared->group.release());
    }
    const std::lock_guard lock(shared->mutex);
    shared->is_free = true;
    shared->changed.notify_all();
  }).detach();
}

void fail(const std::shared_ptr<Shared>& shared, std::exception_ptr failure) {
  {
    const std::lock_guard lock(shared->mutex);
    if (shared->failure) return;
    shared->failure = std::move(failure);
    shared->changed.notify_all();
  }
  let_go(shared, false);
}

void fail(const std::shared_ptr<Shared>& shared, ErrorCode code, const std::string& sentence) {
  fail(shared, std::make_exception_ptr(Error(code, sentence)));
}

void fail_with_fault(const std::shared_ptr<Shared>& shared, const char* name,
                     const std::string& fault) {
  const auto says = [&](const char* words) { return fault.find(words) != fault.npos; };
  const std::string what =
      std::string("The ") + name + " over all ranks failed: " + first_line(fault);
  // NCCL takes memory for its buffers when it first needs them.
  if (says("out of memory"))
    return fail(shared, ErrorCode::kModuleOutOfMemory,
                what + ". Use a smaller --batch-size, since NCCL needs memory, too.");
  // "remote process exited or there was a network error"; all else is this rank's own.
  const bool is_remote = says("remote") || says("in progress") || says("timed out");
  fail(shared, is_remote ? ErrorCode::kTimeoutOccured : ErrorCode::kFailedToCompleteOperation,
       what + ". Check the driver logs of the other ranks, or rerun with NCCL_DEBUG=INFO.");
}

// The watchdog thread.
class Watcher {
 public:
  explicit Watcher(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  void run() {
    std::unique_lock lock(shared_->mutex);
    const auto ends = [this] { return shared_->closing || shared_->failure; };
    for (;;) {
      if (shared_->works.empty()) {
        shared_->changed.wait(lock, [&] { return ends() || !shared_->works.empty(); });
        suspension_.restart(Clock::now());
      }
      if (shared_->changed.wait_for(lock, kLookEvery, ends)) break;
      lock.unlock();
      look();
      lock.lock();
    }
    const auto grace = std::chrono::duration<double>(shared_->watch.grace_s);
    const auto last_seen = [this] { return shared_->closing || shared_->failure_thrown; };
    if (shared_->changed.wait_for(lock, grace, last_seen) || !shared_->watch.stuck) return;
    const std::exception_ptr failure = shared_->failure;
    lock.unlock();
    shared_->watch.stuck(failure);
  }

 private:
  void look() {
    ask_group();
    Shared::Work front{};
    const Clock::time_point turn = Clock::now();
    {
      const std::lock_guard lock(shared_->mutex);
      const Clock::duration gap = suspension_.turn(turn);
      for (Shared::Work& work : shared_->works) work.begin += gap;
      if (shared_->works.empty() || shared_->failure) return;
      front = shared_->works.front();
    }
    const double waited = std::chrono::duration<double>(turn - front.begin).count();
    if (!shared_->watch.waiting) {
      if (waited > shared_->deadline_s)
        fail(shared_, ErrorCode::kTimeoutOccured,
             formatted("Waited %.0f s for the %s over all ranks.", waited, front.name));
      return;
    }
    try {
      shared_->watch.waiting(front.name, front.place, waited);
    } catch (...) {
      fail(shared_, std::current_exception());
    }
  }

  // Drops finished work and detects faults of NCCL; one of CUDA reaches the caller. If a caller is
  // inside the group, it does nothing: the caller checks for itself.
  void ask_group() {
    const std::unique_lock calling(shared_->calling, std::try_to_lock);
    if (!calling.owns_lock()) return;
    const char* name = "collective";
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->works.empty() || shared_->failure) return;
      name = shared_->works.front().name;
    }
    {
      const std::uint64_t finished = shared_->group->num_finished();
      const std::lock_guard lock(shared_->mutex);
      for (; shared_->num_seen < finished; ++shared_->num_seen) {
        shared_->works.pop_front();
        if (!shared_->works.empty()) shared_->works.front().begin = Clock::now();
      }
    }
    if (shared_->group->state() == NcclState::kFailed)
      fail_with_fault(shared_, name, shared_->group->fault());
  }

  std::shared_ptr<Shared> shared_;
  SuspensionWatch suspension_{kLongestTurn};
};

class NcclCommunicator : public Communicator {
 public:
  explicit NcclCommunicator(const NcclPlan& plan)
      : plan_(plan), shared_(std::make_shared<Shared>(plan, plan.join_group())) {
    add_work(kSetUp);
    watcher_ = std::thread([shared = shared_] { Watcher(shared).run(); });
    try {
      settle(kSetUp);
    } catch (...) {
      end();
      throw;
    }
    const std::lock_guard lock(shared_->mutex);
    shared_->works.pop_front();
  }
  ~NcclCommunicator() override { end(); }

  int size() const override { return plan_.size; }

  Ticket all_reduce(const at::Tensor& values) override {
    return start(plan_.sum_name, true, values);
  }

  void wait(Ticket ticket) override {
    call([&](NcclGroup& group) { group.join(ticket); });
  }

  void broadcast(const at::Tensor& values) override {
    wait(start("broadcast of weights", false, values));
  }

  std::optional<double> all_reduce_seconds() const override {
    return call([](NcclGroup& group) { return group.seconds(); });
  }

  std::unique_ptr<Communicator> second_lane(const char* sum_name) override {
    NcclPlan plan = plan_;
    plan.sum_name = sum_name;
    plan.count_one_of = kSmallSums;
    auto lane = std::make_unique<NcclCommunicator>(plan);
    second_lane_ = lane->shared_;
    return lane;
  }

 private:
  static constexpr const char* kSetUp = "NCCL setup";
  static constexpr int kSmallSums = 8;
  static constexpr Ticket kNothing = 0;

  void add_work(const char* name) {
    const std::uint64_t place = shared_->watch.started ? shared_->watch.started() : 0;
    const std::lock_guard lock(shared_->mutex);
    shared_->works.push_back({name, place, Clock::now()});
    shared_->changed.notify_all();
  }

  // Runs `work` on the group. Throws if the group has failed: it must not be used afterwards.
  template <typename Work>
  std::invoke_result_t<Work, NcclGroup&> call(Work&& work) const {
    const std::lock_guard calling(shared_->calling);
    shared_->throw_if_failed();
    return work(*shared_->group);
  }

  Ticket start(const char* name, bool is_sum, const at::Tensor& values) {
    if (!values.is_non_overlapping_and_dense())
      throw InternalError("a collective of a non-contiguous tensor");
    const NcclCall what{is_sum, values.data_ptr(), static_cast<std::size_t>(values.numel()),
                        type_of(values)};
    if (what.count == 0) return kNothing;
    add_work(name);
    call([&](NcclGroup& group) { group.start(what); });
    settle(name);
    // The last small sums of a step come before the last of the gradients, where there are few.
    if (const std::shared_ptr<Shared> lane = second_lane_.lock()) {
      const std::lock_guard calling(lane->calling);
      count(*lane);
    }
    return call([&](NcclGroup& group) {
      const Ticket ticket = group.mark();
      shared_->has_uncounted = true;
      if (ticket % plan_.count_one_of == 0) count(*shared_);
      return ticket;
    });
  }

  // Returns when NCCL has accepted the last call. That is soon, without sleeping, except for the
  // first calls, which connect the ranks. The watchdog thread enforces the deadline.
  void settle(const char* name) {
    const Clock::time_point begin = Clock::now();
    for (;;) {
      const NcclState state = call([&](NcclGroup& group) {
        const NcclState now = group.state();
        if (now == NcclState::kFailed) fail_with_fault(shared_, name, group.fault());
        return now;
      });
      if (state == NcclState::kReady) return;
      if (state == NcclState::kFailed) shared_->throw_if_failed();
      if (Clock::now() - begin < kYieldFor)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(kPause);
    }
  }

  void end() {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->closing = true;
      shared_->changed.notify_all();
    }
    watcher_.join();
    std::unique_lock lock(shared_->mutex);
    if (!shared_->failure && std::uncaught_exceptions() > 0) return;
    if (!shared_->failure) let_go(shared_, true);
    shared_->changed.wait_for(lock, std::chrono::duration<double>(kClosePatience + 5),
                              [this] { return shared_->is_free; });
  }

  static constexpr std::chrono::microseconds kYieldFor{300}, kPause{50};

  const NcclPlan plan_;
  std::shared_ptr<Shared> shared_;
  std::weak_ptr<Shared> second_lane_;
  std::thread watcher_;
};

const CudaModule& module_with_nccl() {
  std::string fault;
  const CudaModule* module = open_cuda_module(&fault);
  if (module == nullptr)
    throw Error(ErrorCode::kFailedToCompleteOperation, "NCCL cannot be used: " + fault + ".");
  const int version = module->nccl_version();
  if (version < kLeastNccl)
    throw Error(ErrorCode::kFailedToCompleteOperation,
                formatted("NCCL %d.%d.%d was loaded, but kiln needs 2.18 or newer: use the "
                          "libnccl.so.2 of its LibTorch, and check LD_LIBRARY_PATH and LD_PRELOAD "
                          "for another one.",
                          version / 10000, version % 10000 / 100, version % 100));
  return *module;
}

}  // namespace

std::string make_nccl_id() {
  std::string fault;
  std::string id = module_with_nccl().make_nccl_id(&fault);
  if (id.empty())
    throw Error(ErrorCode::kFailedToCompleteOperation,
                "NCCL cannot be used: " + fault + ". Rerun with NCCL_DEBUG=INFO.");
  return id;
}

std::unique_ptr<NcclGroup> join_nccl_group(const NcclSeat& seat) {
  const CudaModule& module = module_with_nccl();
  try {
    return std::unique_ptr<NcclGroup>(module.make_nccl_group(seat));
  } catch (const std::exception& fault) {
    throw Error(ErrorCode::kFailedToCompleteOperation,
                "NCCL cannot be set up on GPU " + std::to_string(seat.device) + ": " +
                    first_line(fault.what()) + ". Run nvidia-smi for details.");
  }
}

std::unique_ptr<Communicator> make_nccl_communicator(const NcclPlan& plan) {
  return std::make_unique<NcclCommunicator>(plan);
}

void keep_nccl_lanes_in_order() {
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
}

void keep_nccl_ranks_apart(int rank) {
  ::setenv("NCCL_HOSTID", ("kiln-" + std::to_string(rank)).c_str(), 1);
}

std::optional<fs::path> send_nccl_log_to(const fs::path& folder, int rank) {
  if (std::getenv("NCCL_DEBUG_FILE") != nullptr || ::access(folder.c_str(), W_OK) != 0) return {};
  if (std::getenv("NCCL_DEBUG") == nullptr) {
    ::setenv("NCCL_DEBUG", "INFO", 1);
    ::setenv("NCCL_DEBUG_SUBSYS", "INIT,NET", 0);
  }
  fs::path file = folder / ("70_nccl_log_" + std::to_string(rank) + ".txt");
  std::string pattern;  // NCCL expands %h to the host, %p to the process and %% to %
  for (const char letter : file.string()) pattern += letter == '%' ? "%%" : std::string(1, letter);
  ::setenv("NCCL_DEBUG_FILE", pattern.c_str(), 0);
  return file;
}

std::string network_in_nccl_log(const fs::path& log) {
  constexpr std::string_view kMark = "Using network ";
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);)
    if (const std::size_t at = line.find(kMark); at != line.npos)
      return line.substr(at + kMark.size());
  return "";
}

}  // namespace kiln
