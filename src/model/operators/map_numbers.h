// The numbers of feature maps, for units that are compiled with OpenMP and so without LibTorch's
// headers.
#pragma once

#include <bit>
#include <cstdint>

namespace kiln {

enum class MapType { kFloat32, kBfloat16 };

// The upper half of a float.
struct Bfloat16 {
  std::uint16_t bits;

  [[gnu::always_inline]] operator float() const {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
};

[[gnu::always_inline]] inline void store(float number, float& to) {
  to = number;
}

// Rounded to the nearest, ties to even; NaN stays NaN.
[[gnu::always_inline]] inline void store(float number, Bfloat16& to) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  to.bits = static_cast<std::uint16_t>(number == number ? rounded : bits >> 16 | 1);
}

}  // namespace kiln
