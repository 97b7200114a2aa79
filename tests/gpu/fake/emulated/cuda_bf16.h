// CUDA's header of this name, for a CPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// Rounds to nearest, ties to even.
struct __nv_bfloat16 {
  std::uint16_t bits = 0;

  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value) {
    std::uint32_t wide = 0;
    std::memcpy(&wide, &value, sizeof wide);
    bits = std::isnan(value) ? 0x7fc0
                             : static_cast<std::uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
  explicit operator float() const {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value = 0;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
};
