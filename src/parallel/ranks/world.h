// The ranks of one job: this process's rank, and the exchange of small host-side values before and
// between steps. Tensors go through a Communicator. A world has one rank until init() detects an
// MPI launcher; from then on the exchanging functions are collectives that all ranks call in the
// same order. A collective throws Error kTimeoutOccured at the deadline, and FailedElsewhere if
// another rank failed. One thread, except for enter() and mpi().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/log.h"
#include "base/platform/launch_environment.h"
#include "parallel/ranks/mpi_thread.h"

namespace kiln {

// The items of all lists, in order, such as of what each rank gave to a gather.
template <typename T>
std::vector<T> concatenated(std::vector<std::vector<T>> lists) {
  std::vector<T> all;
  for (std::vector<T>& list : lists) std::ranges::move(list, std::back_inserter(all));
  return all;
}

class World {
 public:
  World();

  // Initializes MPI if a launcher's environment variables are set; `log` must outlive the world.
  // Throws Error kUserError if the number of ranks differs from `expected_size` (0: any), from the
  // number that kiln launch started, or from that of the Slurm step.
  void init(StallLimits limits, int expected_size, Log& log);

  int rank() const { return ranks_.rank; }
  int size() const { return ranks_.size; }
  int local_rank() const { return ranks_.local_rank; }
  int local_size() const { return ranks_.local_size; }
  bool leads() const { return ranks_.rank == 0; }
  const std::vector<std::string>& hosts() const { return hosts_; }  // [size]
  std::string name_of(int rank) const;                              // "rank 1 on host node7"

  // Sets this rank's phase, for the other ranks' warnings, the driver logs of ranks above 0, and
  // kiln launch. While `patient`, the others wait past the deadline as long as this rank responds.
  void enter(const std::string& phase, bool patient = false);
  // Adds a detail to the phase, for warnings only: "step 17".
  void at(const std::string& detail);

  // All-gather: returns each rank's value, [size]. A plain value takes one collective; others,
  // whose bytes (base/bytes.h) may differ in number between ranks, take two.
  template <typename T>
  std::vector<T> gather(const T& mine) {
    std::vector<T> all;
    if constexpr (PlainValue<T>) {
      const std::string bytes = gather_bytes(&mine, sizeof mine);
      all.resize(static_cast<std::size_t>(size()));
      std::memcpy(all.data(), bytes.data(), bytes.size());
    } else {
      for (const std::string& bytes : gather(to_bytes(mine))) all.push_back(from_bytes<T>(bytes));
    }
    return all;
  }
  std::vector<std::string> gather(const std::string& mine);
  // The same on rank 0; elsewhere empty. For much that only rank 0 needs, such as what it writes.
  std::vector<std::string> gather_on_rank_0(const std::string& mine);
  template <typename T>
  std::vector<T> gather_on_rank_0(const T& mine) {
    std::vector<T> all;
    for (const std::string& bytes : gather_on_rank_0(to_bytes(mine)))
      all.push_back(from_bytes<T>(bytes));
    return all;
  }
  // The largest of all ranks' numbers, for each place; `values` has the same length on all ranks.
  void take_largest(std::vector<std::uint64_t>& values);
  // Broadcast: returns rank 0's value.
  template <PlainValue T>
  T broadcast(T of_rank_0) {
    broadcast_bytes(&of_rank_0, sizeof of_rank_0);
    return of_rank_0;
  }
  std::string broadcast(const std::string& of_rank_0);
  // The values have the same length on all ranks.
  std::vector<double> sum(const std::vector<double>& values) { return finish(start_sum(values)); }
  // The same in two calls, with other work or collectives in between.
  struct SumUnderWay {
    std::uint64_t ticket = MpiThread::kDone;
    std::shared_ptr<std::vector<double>> values;
  };
  SumUnderWay start_sum(const std::vector<double>& values);
  std::vector<double> finish(const SumUnderWay& sum);
  void barrier();

  // Runs `work` and returns if it succeeded on all ranks. Otherwise the lowest rank that failed
  // rethrows its exception, and the others throw FailedElsewhere naming that rank.
  void agree(const std::function<void()>& work);
  // What `make` returns on rank 0, which alone runs it: agree(), then broadcast().
  template <typename Make>
  std::invoke_result_t<Make> from_leader(Make&& make) {
    std::invoke_result_t<Make> value{};
    agree([&] {
      if (leads()) value = make();
    });
    return broadcast(value);
  }

  // Call after a failure, as early as possible and before reporting it: notifies the other ranks,
  // once. Returns true if this rank must write error_info.json.
  bool announce_failure(const std::string& text, int exit_code);
  // Call last. Waits for all ranks after success or a failure from agree(), and otherwise aborts
  // the job with `exit_code`. Returns `exit_code`.
  int leave(int exit_code);

  // The number of collectives of this world that this rank has waited for.
  std::uint64_t num_rounds() const { return num_rounds_; }
  // The underlying MPI thread, for the communicator that sums gradients; nullptr in a world of one
  // rank.
  MpiThread* mpi() { return mpi_.get(); }

 private:
  void wait_for(const Collective& collective);
  std::string gather_bytes(const void* mine, std::size_t count);  // [size] times `count`
  void broadcast_bytes(void* value, std::size_t count);
  void check_size(int expected_size, const LaunchEnvironment& launcher) const;

  std::unique_ptr<MpiThread> mpi_;
  MpiThread::Ranks ranks_;
  std::vector<std::string> hosts_;
  std::string phase_;
  Log* log_ = nullptr;
  std::uint64_t num_rounds_ = 0;
  bool agreed_failure_ = false;
  bool reports_ = true;  // whether this rank reports its failure
};

}  // namespace kiln
