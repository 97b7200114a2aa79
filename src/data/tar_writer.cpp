#include "data/tar_writer.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace kiln {
namespace {

constexpr std::size_t kBlock = 512;

// Octal digits and a zero byte.
void put_number(std::string& header, std::size_t at, int digits, std::uint64_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(value));
  std::memcpy(header.data() + at, text, static_cast<std::size_t>(digits));
}

}  // namespace

std::string tar_member(std::string_view name, std::string_view bytes) {
  if (name.empty() || name.size() > 100 || bytes.size() >> 33 != 0)
    throw InternalError("tar_member: the name is too long, or the file too large");
  std::string member(kBlock, '\0');
  name.copy(member.data(), name.size());
  put_number(member, 100, 7, 0644);
  put_number(member, 108, 7, 0);
  put_number(member, 116, 7, 0);
  put_number(member, 124, 11, bytes.size());
  put_number(member, 136, 11, 0);
  member[156] = '0';
  std::memcpy(member.data() + 257, "ustar\00000", 8);
  std::uint64_t sum = 8 * ' ';
  for (const char c : member) sum += static_cast<unsigned char>(c);
  put_number(member, 148, 6, sum);
  member[155] = ' ';
  member += bytes;
  member.resize((member.size() + kBlock - 1) / kBlock * kBlock, '\0');
  return member;
}

std::string tar_end() {
  return std::string(2 * kBlock, '\0');
}

}  // namespace kiln
