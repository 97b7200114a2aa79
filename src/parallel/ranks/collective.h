// One collective operation, on host memory.
#pragma once

#include <cstddef>
#include <memory>

#include "base/timeline.h"

namespace kiln {

enum class Element { kByte, kFloat32, kFloat64, kInt64, kBFloat16 };

// Collectives in one lane finish in order; lanes do not wait for each other.
enum class Lane { kMain, kSecond };
constexpr std::size_t kNumLanes = 2;

struct Collective {
  // kMpiAllReduce is plain MPI_Allreduce, which blocks without a deadline: for benchmarks.
  enum class Kind { kAllReduce, kMpiAllReduce, kBroadcast, kGather, kBarrier };
  Kind kind = Kind::kBarrier;
  const char* name = "";  // for messages: "gradient all-reduce"
  // Summed or broadcast (from rank 0) in place; for kGather: this rank's part.
  void* data = nullptr;
  std::size_t count = 0;  // elements of `data`
  Element element = Element::kByte;
  void* gathered = nullptr;  // for kGather: [size] parts of `count` bytes
  // Owns the memory. MPI may still write to it after the waiting thread has given up.
  std::shared_ptr<const void> keep = {};
  Lane lane = Lane::kMain;
  std::shared_ptr<Timeline> timeline = {};  // records the collective when done; may be null
};

}  // namespace kiln
