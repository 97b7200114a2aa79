// Ranks as threads of one process: a Communicator that sums over a board all threads see.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "parallel/communicator.h"

namespace kiln {

// What all ranks have put up so far: the n-th sum of one rank belongs to the n-th of the others.
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

  void start_sum(const at::Tensor& values) override { put(values, values); }
  void broadcast(const at::Tensor& values) override {
    put(values, rank_ == 0 ? values : torch::zeros_like(values));
  }

  void finish() override {
    std::unique_lock lock(board_.mutex);
    for (; done_ < started_.size(); ++done_) {
      const auto complete = [&] { return board_.entries[done_].arrived == board_.num_ranks; };
      if (!board_.changed.wait_for(lock, std::chrono::seconds(20), complete))
        throw Error(ErrorCode::kTimeoutOccured, "a rank did not come");
      started_[done_].copy_(board_.entries[done_].sum);
    }
  }

  // The lengths of the sums, in the order in which they were started.
  std::vector<std::int64_t> lengths() const {
    std::vector<std::int64_t> lengths;
    for (const at::Tensor& values : started_) lengths.push_back(values.numel());
    return lengths;
  }

 private:
  void put(const at::Tensor& target, const at::Tensor& part) {
    const std::lock_guard lock(board_.mutex);
    const std::size_t index = started_.size();
    started_.push_back(target);
    if (board_.entries.size() <= index) board_.entries.resize(index + 1);
    SumBoard::Entry& entry = board_.entries[index];
    entry.sum = entry.sum.defined() ? entry.sum + part : part.clone();
    ++entry.arrived;
    board_.changed.notify_all();
  }

  SumBoard& board_;
  int rank_;
  std::vector<at::Tensor> started_;
  std::size_t done_ = 0;
};

// Runs `work` once a rank, each in its thread, and rethrows nothing: failures are the test's.
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
