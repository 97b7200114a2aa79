// A point-to-point message between two ranks, outside of collectives. Both must know its size.
#pragma once

#include <cstddef>
#include <memory>

namespace kiln {

struct Parcel {
  enum class Kind { kSend, kReceive };
  static constexpr int kAnyRank = -1;

  Kind kind = Kind::kSend;
  const char* name = "";  // for messages: "exchange with the servers"
  int rank = kAnyRank;    // destination or source; a parcel from any rank has at most 512 KiB
  int tag = 0;            // between two ranks, parcels with the same tag arrive in order
  void* data = nullptr;
  std::size_t bytes = 0;
  // Owns the memory. MPI may still write to it after the waiting thread has given up.
  std::shared_ptr<const void> keep = {};
  // Whether the other rank is expected to act at once: waiting then keeps polling. Otherwise it
  // polls rarely, which costs little.
  bool is_soon = true;
};

}  // namespace kiln
