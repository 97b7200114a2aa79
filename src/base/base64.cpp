#include "base/base64.h"

#include <array>
#include <cstdint>
#include <stdexcept>

namespace kiln {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::uint32_t value_of(char digit) {
  const std::size_t value = kDigits.find(digit);
  if (value == std::string_view::npos) throw std::invalid_argument("no base64 digit");
  return static_cast<std::uint32_t>(value);
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < group.size() ? static_cast<unsigned char>(group[k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += k <= group.size() ? kDigits[bits >> (18 - 6 * k) & 63U] : '=';
  }
  return text;
}

std::string from_base64(std::string_view text) {
  if (text.size() % 4 != 0) throw std::invalid_argument("base64 of a wrong length");
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::string_view group = text.substr(i, 4);
    const bool last = i + 4 == text.size();
    while (last && group.size() > 2 && group.back() == '=') group.remove_suffix(1);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 4; ++k)
      bits = bits << 6 | (k < group.size() ? value_of(group[k]) : 0U);
    for (std::size_t k = 0; k + 1 < group.size(); ++k)
      bytes += static_cast<char>(bits >> (16 - 8 * k) & 255U);
  }
  return bytes;
}

}  // namespace kiln
