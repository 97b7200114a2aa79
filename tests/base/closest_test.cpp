#include "base/text.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Closest, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("epochs", "epochs"), 0);
}

TEST(Closest, FindsTheNearestName) {
  const std::vector<std::string> names = {"epochs", "batch-size", "patience", "print-freq"};
  EXPECT_EQ(closest("epoch", names), "epochs");
  EXPECT_EQ(closest("bach-size", names), "batch-size");
  EXPECT_EQ(closest("pat", names), "patience");
  EXPECT_EQ(closest("color", names), "");
  EXPECT_EQ(closest("EPOCHS", names), "epochs");
  EXPECT_EQ(closest("ship", {"Truck", "SHIP"}), "SHIP");
  EXPECT_EQ(closest("x", names), "");
  EXPECT_EQ(closest("", names), "");
  EXPECT_EQ(closest(std::string(100000, 'e'), names), "");
}

TEST(Closest, PhrasesTheSuggestion) {
  EXPECT_EQ(did_you_mean("epoch", {"epochs"}, "--"), " Did you mean '--epochs'?");
  EXPECT_EQ(did_you_mean("color", {"epochs"}), "");
}

}  // namespace
}  // namespace kiln
