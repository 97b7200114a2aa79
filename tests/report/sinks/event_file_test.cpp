#include "report/sinks/event_file.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(EventFile, ChecksumsMatchTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);              // the polynomial's check value
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);    // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);  // likewise
}

TEST(EventFile, MessagesAreProtocolBuffers) {
  const ProtoMessage inner = ProtoMessage().text(1, "a");
  const std::string bytes = ProtoMessage().integer(2, 300).message(5, inner).bytes();
  EXPECT_EQ(bytes, std::string("\x10\xAC\x02\x2A\x03\x0A\x01"
                               "a"));
  EXPECT_EQ(ProtoMessage().real(1, 1.0).bytes(), std::string("\x09\0\0\0\0\0\0\xF0\x3F", 9));
  EXPECT_EQ(ProtoMessage().small_real(2, 1.0F).bytes(), std::string("\x15\0\0\x80\x3F", 5));
}

TEST(EventFile, ARecordIsFramed) {
  const std::string record = tfrecord("abc");
  ASSERT_EQ(record.size(), 8 + 4 + 3 + 4U);
  EXPECT_EQ(record.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

}  // namespace
}  // namespace kiln
