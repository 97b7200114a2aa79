// What labels mean: the decision, on plain values.
#include "data/dataset/listing.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace kiln {
namespace {

using Texts = std::vector<std::string>;
using Ids = std::vector<int>;

const Texts kNames = {"owl", "dog", "cat"};

FoundLabels of_labels(const std::vector<RawLabel>& labels, const Texts& names = {},
                      const std::string& where = "A") {
  FoundLabels found;
  found.labels = labels;
  found.names = names;
  found.where = where;
  if (!names.empty()) found.named_by = "classes.txt";
  return found;
}

FoundLabels of_texts(const Texts& texts, const Texts& names = {}, const std::string& where = "A") {
  FoundLabels found = of_labels({}, names, where);
  for (const std::string& text : texts) found.labels.push_back({.text = text});
  return found;
}

struct Decided : LabelMeaning {
  std::optional<int> first;
};

Decided meaning(std::vector<FoundLabels> train, std::vector<FoundLabels> valid,
                std::optional<int> given = {}) {
  LabelParts trains, both;
  for (FoundLabels& found : train) trains.push_back(both.emplace_back(&found));
  for (FoundLabels& found : valid) both.push_back(&found);
  const auto first = first_number(both, given);
  return {meaning_of(trains, first.value_or(0)), first};
}

template <typename Decide>
void expect_conflict(Decide&& decide, const Texts& words) {
  try {
    decide();
    ADD_FAILURE() << "accepted instead of " << words.front();
  } catch (const Error& fault) {
    for (const std::string& word : words)
      EXPECT_NE(fault.message().find(word), std::string::npos) << word << ": " << fault.message();
  }
}

TEST(LabelMeaning, AllPartsAndBothSetsTellWhereNumbersBegin) {
  const FoundLabels few = of_texts({"1", "2"}, kNames), all = of_texts({"1", "2", "3"}, kNames);
  EXPECT_EQ(meaning({few, all}, {few}).ids, (std::vector<Ids>{{0, 1}, {0, 1, 2}}));
  EXPECT_EQ(meaning({few}, {all}).ids, (std::vector<Ids>{{0, 1}}));
  EXPECT_EQ(meaning({few, of_texts({"0"}, kNames)}, {}).ids, (std::vector<Ids>{{1, 2}, {0}}));
  EXPECT_EQ(meaning({few}, {}, 1).ids, (std::vector<Ids>{{0, 1}}));
  EXPECT_EQ(meaning({few}, {}, 0).ids, (std::vector<Ids>{{1, 2}}));
  EXPECT_EQ(meaning({of_texts({"cat"}, kNames)}, {}).first, std::nullopt);
}

TEST(LabelMeaning, WhatCannotBeToldIsAskedFor) {
  expect_conflict(
      [] {
        meaning({of_texts({"1", "2"}, kNames)}, {});
      },
      {"A: ", "1 to 2", "3 classes", "--first-label 0", "--first-label 1"});
}

TEST(LabelMeaning, ContradictionsAreRefusedWithBothSides) {
  const FoundLabels from_one = of_texts({"1", "3"}, kNames, "B");
  expect_conflict(
      [&] {
        meaning({of_texts({"0", "2"}, kNames)}, {from_one});
      },
      {"A: ", "0 to 2", "B", "1 to 3", "3 classes"});
  expect_conflict([] { meaning({of_texts({"4"}, kNames)}, {}); }, {"label 4", "3 classes"});
  expect_conflict([] { meaning({of_texts({"0"}, kNames)}, {}, 1); }, {"label 0", "--first-label"});
  expect_conflict(
      [] {
        meaning({of_texts({"0"}), of_texts({"cat"}, {}, "B")}, {});
      },
      {"'cat' in B", "'0' in A"});
  expect_conflict([] { meaning({of_texts({"0", "cat"})}, {}); }, {"'0'", "'cat'"});
  expect_conflict([] { meaning({of_texts({"20240101", "1"})}, {}); }, {"'20240101'", "'1'"});
  expect_conflict([] { meaning({of_texts({"1"})}, {of_texts({"01"})}); }, {"'1'", "'01'"});
  expect_conflict([] { meaning({of_texts({"bee"}, kNames)}, {}); }, {"'bee'", "'owl'"});
  expect_conflict(
      [] {
        meaning({of_labels({{"1", "cat"}}), of_labels({{"2", "cat"}})}, {});
      },
      {"number 1 is 'cat'", "number 2 is 'cat'"});
  FoundLabels other = of_texts({"cat"}, {"cat", "dog"}), given = of_texts({"cat"}, kNames);
  other.named_by = given.named_by = "--classes 'x'";
  expect_conflict([&] { meaning({given, other}, {}); }, {"--classes 'x' has other names"});
}

TEST(LabelMeaning, TheGivenOrderIsKept) {
  EXPECT_EQ(meaning({of_texts({"cat"}, kNames), of_texts({"0"}, kNames)}, {}).ids,
            (std::vector<Ids>{{2}, {0}}));
  EXPECT_EQ(meaning({of_texts({"cat"}, kNames), of_texts({"dog"})}, {}).classes, kNames);
  const LabelMeaning joined =
      meaning({of_texts({"1"}, {"owl", "ant"}), of_texts({"0"}, kNames)}, {});
  EXPECT_EQ(joined.classes, (Texts{"ant", "cat", "dog", "owl"}));
  EXPECT_EQ(joined.ids, (std::vector<Ids>{{0}, {3}}));
  EXPECT_NE(joined.note.find("lists of classes differ"), std::string::npos);
}

TEST(LabelMeaning, NumbersAreInTheOrderOfTheirValuesAndNamesOfCodePoints) {
  const LabelMeaning numbers = meaning({of_texts({"0", "10"}), of_texts({"2"})}, {});
  EXPECT_EQ(numbers.classes, (Texts{"0", "2", "10"}));
  EXPECT_EQ(numbers.ids, (std::vector<Ids>{{0, 2}, {1}}));
  EXPECT_NE(numbers.note.find("0 to 10, of which 3"), std::string::npos);
  EXPECT_EQ(meaning({of_texts({"0", "1"})}, {}).note, "");
  EXPECT_EQ(meaning({of_texts({"001", "002"})}, {}).classes, (Texts{"001", "002"}));
  EXPECT_EQ(meaning({of_texts({"b"}), of_texts({"a", "c"})}, {}).classes, (Texts{"a", "b", "c"}));
  FoundLabels folders = of_texts({"10", "2", "x"});
  folders.are_names = true;
  EXPECT_EQ(meaning({folders}, {}).classes, (Texts{"10", "2", "x"}));
}

TEST(LabelMeaning, NamesInRecordsNameTheirNumbers) {
  const LabelMeaning decided = meaning({of_labels({{"2", "cat"}, {"1", "owl"}, {"", "cat"}})}, {});
  EXPECT_EQ(decided.classes, (Texts{"owl", "cat"}));
  EXPECT_EQ(decided.ids.front(), (Ids{1, 0, 1}));
  EXPECT_EQ(meaning({of_labels({{"1", "cat"}, {"1"}})}, {}).ids.front(), (Ids{0, 0}));
  EXPECT_EQ(meaning({of_labels({{"5", "cat"}, {"9", "owl"}}, kNames)}, {}).ids.front(),
            (Ids{2, 0}));
  EXPECT_EQ(
      meaning({of_labels({{"1", "owl"}, {"2", "dog"}}, kNames)}, {of_texts({"1"}, kNames)}).first,
      1);
  for (const RawLabel& alone : {RawLabel{"2"}, RawLabel{"", "owl"}})
    expect_conflict(
        [&] {
          meaning({of_labels({{"1", "cat"}, alone})}, {});
        },
        {"'cat'", alone.text + alone.name});
  expect_conflict([] { meaning({of_labels({{"1"}, {"", "cat"}})}, {}); }, {"'cat'", "'1'"});
}

TEST(LabelMeaning, ANumberAndItsGivenNameMustAgreeWhereNumbersCount) {
  EXPECT_EQ(meaning({of_labels({{"0", "cat"}, {"1", "dog"}}, kNames)}, {}).ids.front(),
            (Ids{2, 1}));
  for (const RawLabel& other : {RawLabel{"1"}, RawLabel{"1", "ant"}})
    expect_conflict(
        [&] {
          meaning({of_labels({{"0", "cat"}, {"1", "dog"}, other}, kNames)}, {});
        },
        {"'cat'", "line 3", "classes.txt"});
}

TEST(LabelMeaning, ALabelThatIsAGivenNameIsThatName) {
  EXPECT_EQ(meaning({of_texts({"10", "2"}, {"2", "10", "x"})}, {}).ids.front(), (Ids{1, 0}));
  EXPECT_EQ(meaning({of_texts({"1", "2"}, {"0", "1", "10", "2"})}, {}).ids.front(), (Ids{1, 3}));
  const Texts stars = {"1", "2", "3"};
  const FoundLabels few = of_texts({"1", "2"}, stars), all = of_texts({"0", "1", "2"}, stars);
  EXPECT_EQ(meaning({few}, {}).ids.front(), (Ids{0, 1}));
  EXPECT_EQ(meaning({few}, {all}).ids.front(), (Ids{1, 2})) << "numbers, as in the other set";
  const Texts grades = {"1", "2", "none"};
  expect_conflict(
      [&] {
        meaning({of_texts({"1", "none"}, grades)}, {of_texts({"0", "2"}, grades, "B")});
      },
      {"A: ", "'1'"});
}

TEST(LabelMeaning, TheNumberOfARecordIsNoName) {
  const RawLabel zero{.text = "0", .is_number = true}, one{.text = "1", .is_number = true};
  EXPECT_EQ(meaning({of_labels({zero, one}, {"1", "0"})}, {}).ids.front(), (Ids{0, 1}));
  EXPECT_EQ(meaning({of_texts({"0", "1"}, {"1", "0"})}, {}).ids.front(), (Ids{1, 0}));
}

TEST(LabelMeaning, LinesWithoutImagesAreTold) {
  EXPECT_EQ(meaning({of_texts({"0", "2"}, kNames)}, {}).note, "");
  EXPECT_NE(meaning({of_texts({"0", "1"}, kNames)}, {}).note.find("no header"), std::string::npos);
}

TEST(LabelMeaning, BytesHoldAllThatIsDecidedUpon) {
  FoundLabels found = of_labels({{"1", "cat"}, {"x"}}, kNames);
  found.ids = {0, 2};
  found.are_lines = true;
  const FoundLabels again = from_bytes<FoundLabels>(to_bytes(found));
  EXPECT_EQ(again.labels, found.labels);
  EXPECT_EQ(again.names, found.names);
  EXPECT_TRUE(again.are_lines);
  EXPECT_EQ(again.ids, found.ids);
  EXPECT_EQ(again.named_by + again.where, "classes.txtA");
  EXPECT_THROW(from_bytes<FoundLabels>(to_bytes(found).substr(1)), InternalError);
}

}  // namespace
}  // namespace kiln
