// Sums in bfloat16, the upper half of float32, for which MPI has no type.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kiln {

// sums[i] += more[i]: added as float32, rounded to the nearest, halves to even. NaN stays NaN.
inline void add_bfloat16(void* sums, const void* more, std::size_t count) {
  const auto widened = [](std::uint16_t value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
  };
  auto* to = static_cast<std::uint16_t*>(sums);
  const auto* from = static_cast<const std::uint16_t*>(more);
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = widened(to[i]) + widened(from[i]);
    const auto bits = std::bit_cast<std::uint32_t>(sum);
    const std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    to[i] = static_cast<std::uint16_t>(sum != sum ? 0x7FC0 : rounded);
  }
}

}  // namespace kiln
