#include "base/text.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace kiln {
namespace {

// RFC 4648, section 10.
TEST(Base64, MatchesTheStandardsExamples) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
}

TEST(Base64, RoundTripsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (std::size_t length = 253; length <= 256; ++length)
    EXPECT_EQ(from_base64(base64(bytes.substr(0, length))), bytes.substr(0, length));
}

TEST(Base64, RefusesInvalidText) {
  for (const char* text : {"Zg=", "Zg==Zg==", "====", "Z===", "Zm9\n", "Zm9v!"})
    EXPECT_THROW(from_base64(text), std::invalid_argument) << text;
}

}  // namespace
}  // namespace kiln
