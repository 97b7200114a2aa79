#include <gtest/gtest.h>

#include "store/model_directory.h"
#include "store/state_dict_file.h"

namespace kiln {
namespace {

TEST(LabelMap, IsWrittenLikeTheDesigners) {
  EXPECT_EQ(format_label_map({"airplane", "bird", "cat"}), ",label\n0,airplane\n1,bird\n2,cat\n");
  EXPECT_EQ(format_label_map({"a,b", "say \"x\""}), ",label\n0,\"a,b\"\n1,\"say \"\"x\"\"\"\n");
}

TEST(LabelMap, ReadsWhatItWrites) {
  const std::vector<std::string> labels{"", "a,b", "\"", "two\nlines", "\xc3\xa4 b", "NA", "7"};
  EXPECT_EQ(parse_label_map(format_label_map(labels)), labels);
}

TEST(LabelMap, ReadsWindowsLineEndings) {
  EXPECT_EQ(parse_label_map(",label\r\n0,a\r\n1,b"), (std::vector<std::string>{"a", "b"}));
}

TEST(LabelMap, RefusesOtherText) {
  for (const char* csv : {"", "x", ",label\n1,a\n", ",label\n0,a,b\n", ",label\n0,\"a\n",
                          ",label\n0\n", ",label\n0,a\n0,b\n", "id,name\n0,a\n"}) {
    EXPECT_THROW(parse_label_map(csv), FormatFault) << csv;
  }
}

}  // namespace
}  // namespace kiln
