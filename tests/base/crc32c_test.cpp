#include "base/tfrecord.h"

#include <gtest/gtest.h>

#include <string>

namespace kiln {
namespace {

TEST(Crc32c, MatchesTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);              // the polynomial's check value
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);    // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);  // likewise
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(Crc32c, PiecesOfAnyLengthGiveTheSame) {
  std::string bytes;
  for (int i = 0; i < 40; ++i) bytes += static_cast<char>(i * 37);
  const std::uint32_t whole = crc32c(bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut)
    EXPECT_EQ(crc32c(bytes.substr(cut), crc32c(bytes.substr(0, cut))), whole) << cut;
}

// One bit at a time, from the polynomial alone.
TEST(Crc32c, EqualsTheSlowDefinition) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i * i >> 3);
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    std::uint32_t crc = ~0U;
    for (const char byte : bytes.substr(0, size)) {
      crc ^= static_cast<unsigned char>(byte);
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    }
    EXPECT_EQ(crc32c(bytes.substr(0, size)), ~crc) << size;
  }
}

TEST(Crc32c, ARecordIsFramed) {
  const std::string record = tfrecord("abc");
  ASSERT_EQ(record.size(), 8 + 4 + 3 + 4U);
  EXPECT_EQ(record.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

}  // namespace
}  // namespace kiln
