// Bytes that one rank sends to another, apart from collectives. Both know how many.
#pragma once

#include <cstddef>
#include <memory>

namespace kiln {

struct Parcel {
  enum class Kind { kSend, kReceive };
  static constexpr int kAnyRank = -1;

  Kind kind = Kind::kSend;
  const char* name = "";  // what a rank waits for, in messages: "exchange with the servers"
  int rank = kAnyRank;    // to which it goes, or from which it comes; from any: 512 KiB at most
  int tag = 0;            // from rank to rank, parcels of one tag arrive in the order of sending
  void* data = nullptr;
  std::size_t bytes = 0;
  // Owns the memory. MPI may still write to it after the waiting thread has given up.
  std::shared_ptr<const void> keep = {};
  // The other rank is at it. Otherwise it may be long in coming, and costs little until then.
  bool is_soon = true;
};

}  // namespace kiln
