#include "base/tfrecord.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(ProtoMessage, IsTheWireFormat) {
  const ProtoMessage inner = ProtoMessage().text(1, "a");
  const std::string bytes = ProtoMessage().integer(2, 300).message(5, inner).bytes();
  EXPECT_EQ(bytes, std::string("\x10\xAC\x02\x2A\x03\x0A\x01"
                               "a"));
  EXPECT_EQ(ProtoMessage().real(1, 1.0).bytes(), std::string("\x09\0\0\0\0\0\0\xF0\x3F", 9));
  EXPECT_EQ(ProtoMessage().small_real(2, 1.0F).bytes(), std::string("\x15\0\0\x80\x3F", 5));
}

}  // namespace
}  // namespace kiln
