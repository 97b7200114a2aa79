#include "model/weights/fetch_file.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(FetchFile, DigitsInNames) {
  EXPECT_EQ(digits_in_name("resnet50-0676ba61.pth"), "0676ba61");
  EXPECT_EQ(digits_in_name("a-b-0676ba61.tar.gz"), "0676ba61");
  EXPECT_EQ(digits_in_name("resnet50-12345678.pth"), "12345678");
  for (const char* name :
       {"", "resnet50.pth", "resnet50-0676ba61", "resnet50-0676ba6.pth", "resnet50-0676ba612.pth",
        "resnet50-0676BA61.pth", "resnet50-best_run.pth", "0676ba61.pth", "run-20240131.pth",
        "run-19991231.pth"})
    EXPECT_EQ(digits_in_name(name), "") << name;
}

}  // namespace
}  // namespace kiln
