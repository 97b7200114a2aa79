// The classes of a stream's labels.
#include "data/stream/stream_loader.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln {
namespace {

RawLabel written(const std::string& text) {
  return {.text = text};
}

RawLabel number(int number, const std::string& name = {}) {
  return {.text = std::to_string(number), .name = name, .is_number = true};
}

TEST(ClassIds, NumbersInRecordsAreNumbersThoughClassesHaveSuchNames) {
  const ClassIds ids({"0", "1", "10", "2"}, 0, ClassIds::Numbers::kLinesInRecords, "s");
  EXPECT_EQ(ids.of(number(2), "i"), 2);
  EXPECT_EQ(ids.of(written("2"), "i"), 3);
  EXPECT_EQ(ids.of(number(7, "10"), "i"), 2);
  EXPECT_THROW(ids.of(written("3"), "i"), Error);  // a name or a number: nobody knows
  EXPECT_THROW(ids.of(number(4), "i"), Error);
}

TEST(ClassIds, WrittenLabelsAreWhatThoseOfTheValidationImagesAre) {
  const ClassIds numbers({"1", "2", "3"}, 0, ClassIds::Numbers::kLines, "s");
  EXPECT_EQ(numbers.of(written("1"), "i"), 1);
  const ClassIds names({"owl", "dog"}, 1, ClassIds::Numbers::kLinesInRecords, "s");
  EXPECT_EQ(names.of(written("owl"), "i"), 0);
  EXPECT_EQ(names.of(written("2"), "i"), 1);
  EXPECT_THROW(names.of({.text = {}, .name = "2"}, "i"), Error);  // the name of a folder
  EXPECT_THROW(names.of({}, "i"), Error);
  EXPECT_EQ(names.of(number(2, "n02"), "i"), 1);
}

TEST(ClassIds, NumbersWithoutGivenNamesAreNames) {
  const ClassIds ids({"5", "9"}, 0, ClassIds::Numbers::kNames, "s");
  EXPECT_EQ(ids.of(number(9), "i"), 1);
  EXPECT_THROW(ids.of(number(1), "i"), Error);
}

}  // namespace
}  // namespace kiln
