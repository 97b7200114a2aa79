// Ranks as threads of one process: a Communicator that sums in shared memory.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "parallel/gradients/communicator.h"

namespace kiln {

// The contributions of all ranks so far: the n-th sum of one rank belongs to the n-th of the
// others.
struct SumBoard {
  explicit SumBoard(int size) : num_ranks(size) {}

  struct Entry {
    at::Tensor sum;
    int arrived = 0;
  };
  int num_ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Entry> entries;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(SumBoard& board, int rank) : board_(board), rank_(rank) {}

  int size() const override { return board_.num_ranks; }
  bool overlaps() const override { return overlaps_; }
  void sum_after_backward() { overlaps_ = false; }
  Ticket all_reduce(const at::Tensor& values) override { return put(values, values); }
  void broadcast(const at::Tensor& values) override {
    wait(put(values, rank_ == 0 ? values : at::zeros_like(values)));
  }
  std::unique_ptr<Communicator> second_lane(const char*) override {
    throw InternalError("the board has one lane");
  }

  void wait(Ticket ticket) override {
    std::unique_lock lock(board_.mutex);
    const auto complete = [&] { return board_.entries[ticket].arrived == board_.num_ranks; };
    if (!board_.changed.wait_for(lock, std::chrono::seconds(20), complete))
      throw Error(ErrorCode::kTimeoutOccured, "a rank did not come");
    started_[ticket].copy_(board_.entries[ticket].sum);
  }

  // The lengths of the sums in the order of their start.
  std::vector<std::int64_t> lengths() const {
    std::vector<std::int64_t> lengths;
    for (const at::Tensor& values : started_) lengths.push_back(values.numel());
    return lengths;
  }

 private:
  Ticket put(const at::Tensor& target, const at::Tensor& part) {
    const std::lock_guard lock(board_.mutex);
    const std::size_t index = started_.size();
    started_.push_back(target);
    if (board_.entries.size() <= index) board_.entries.resize(index + 1);
    SumBoard::Entry& entry = board_.entries[index];
    entry.sum = entry.sum.defined() ? entry.sum + part : part.clone();
    ++entry.arrived;
    board_.changed.notify_all();
    return index;
  }

  SumBoard& board_;
  int rank_;
  bool overlaps_ = true;
  std::vector<at::Tensor> started_;
};

// Runs `work` in one thread per rank.
inline void run_ranks(int size, const std::function<void(int rank, ThreadCommunicator&)>& work) {
  SumBoard board(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&board, &work, rank] {
      ThreadCommunicator communicator(board, rank);
      EXPECT_NO_THROW(work(rank, communicator));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace kiln
