#include "record/vocabulary.h"

#include <gtest/gtest.h>

#include <string>

namespace kiln {
namespace {

std::string fault_of(const char* text) {
  try {
    parse_augment(text);
  } catch (const std::invalid_argument& fault) {
    return fault.what();
  }
  return "none";
}

TEST(Augment, NamesAreSetsOfOperations) {
  EXPECT_EQ(parse_augment("none"), Augment::kNone);
  EXPECT_EQ(parse_augment("flip"), Augment::kFlip);
  EXPECT_EQ(parse_augment("crop,flip"), Augment::kStandard);
  EXPECT_EQ(parse_augment("standard"), Augment::kStandard);
  EXPECT_EQ(parse_augment("crop,flip,trivial,erase"), Augment::kStrong);
  EXPECT_EQ(parse_augment("Strong"), Augment::kStrong);
  EXPECT_FALSE(Augment::kStandard == Augment::kStrong);
}

TEST(Augment, AListMayHaveAnyOrderAndIsWrittenInOne) {
  EXPECT_EQ(parse_augment("erase,trivial,FLIP,crop"), Augment::kStrong);
  EXPECT_EQ(augment_name(parse_augment("erase,trivial,flip,crop")), "strong");
  EXPECT_EQ(augment_name(parse_augment("flip,crop")), "standard");
  EXPECT_EQ(augment_name(Augment::kNone), "none");
  const Augment all = parse_augment("erase,color,rotate90,vflip,trivial,flip,crop");
  EXPECT_EQ(augment_name(all), "crop,flip,vflip,rotate90,color,trivial,erase");
  EXPECT_EQ(parse_augment(augment_name(all)), all);
  EXPECT_EQ(augment_text(parse_augment("color,vflip")), "vertical flip, color jitter");
  EXPECT_EQ(augment_text(Augment::kNone), "");
}

TEST(Augment, OnlyACropTakesRandomParts) {
  EXPECT_TRUE(takes_random_parts(Augment::kStandard));
  EXPECT_FALSE(takes_random_parts(parse_augment("flip,vflip,rotate90,color,trivial,erase")));
}

TEST(Augment, RefusesOtherTexts) {
  EXPECT_TRUE(fault_of("").starts_with("is empty, but must be none"));
  EXPECT_TRUE(fault_of("wild").starts_with("is 'wild', but must be none"));
  EXPECT_TRUE(fault_of("flip,wild").starts_with("contains 'wild', but must be"));
  EXPECT_TRUE(fault_of("flip, crop").starts_with("contains ' crop', but must be"));
  EXPECT_TRUE(fault_of("flip,").starts_with("has an empty part"));
  EXPECT_TRUE(fault_of("crop,flip,crop").starts_with("contains 'crop' twice"));
  EXPECT_TRUE(fault_of("none,flip").starts_with("contains 'none' with others"));
  EXPECT_TRUE(fault_of("color,standard").starts_with("contains 'standard' with others"));
}

}  // namespace
}  // namespace kiln
