// One operation over all ranks, on memory of the host.
#pragma once

#include <cstddef>
#include <memory>

namespace kiln {

enum class Element { kByte, kFloat32, kFloat64, kInt64, kBFloat16 };

// Collectives of one lane finish one after the other; those of the other lane do not wait for them.
enum class Lane { kMain, kSecond };
constexpr std::size_t kNumLanes = 2;

struct Collective {
  // kMpiAllReduce is MPI_Allreduce as it is, which blocks without a deadline: for benchmarks.
  enum class Kind { kAllReduce, kMpiAllReduce, kBroadcast, kGather, kBarrier };
  Kind kind = Kind::kBarrier;
  const char* name = "";  // how a message calls it: "gradient sum"
  void* data = nullptr;  // summed or broadcast (from rank 0) in place; of kGather: this rank's part
  std::size_t count = 0;  // elements of `data`
  Element element = Element::kByte;
  void* gathered = nullptr;  // of kGather: [size] parts of `count` bytes
  // Owns the memory. MPI may still write there when the waiting thread has long given up.
  std::shared_ptr<const void> keep = {};
  Lane lane = Lane::kMain;
};

}  // namespace kiln
