// What labels mean: the decision, on plain values.
#include "data/dataset/found_labels.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace kiln {
namespace {

using Texts = std::vector<std::string>;
using Ids = std::vector<int>;

const Texts kNames = {"owl", "dog", "cat"};

FoundLabels of_texts(const Texts& texts, const Texts& names = {}, const std::string& where = "A") {
  FoundLabels found{.labels = {}, .places = {}, .names = names, .named_by = {}, .where = where};
  if (!names.empty()) found.named_by = "classes.txt";
  take_texts(texts, found);
  return found;
}

FoundLabels of_records(const std::vector<RawLabel>& labels, const Texts& names = {}) {
  FoundLabels found = of_texts({}, names);
  found.labels = labels;
  return found;
}

LabelMeaning meaning(std::vector<FoundLabels> train, std::vector<FoundLabels> valid,
                     std::optional<int> given = {}) {
  LabelParts trains, valids;
  std::vector<FoundLabels*> both;
  for (FoundLabels& found : train) trains.push_back(both.emplace_back(&found));
  for (FoundLabels& found : valid) valids.push_back(both.emplace_back(&found));
  const std::string reading = decide_readings(both);
  std::string note;
  const auto first = find_first_label(trains, valids, given, note);
  LabelMeaning decided = meaning_of(trains, first);
  if (!note.empty()) decided.note = note;
  decided.note += reading;
  return decided;
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
  EXPECT_NE(meaning({few}, {}).note.find("--first-label 1"), std::string::npos);
  EXPECT_EQ(meaning({few}, {}, 1).note, "");
  EXPECT_EQ(meaning({of_texts({"cat"}, kNames)}, {}).first_label, std::nullopt);
}

TEST(LabelMeaning, ContradictionsAreRefusedWithBothSides) {
  const FoundLabels from_one = of_texts({"1", "3"}, kNames, "B");
  expect_conflict(
      [&] {
        meaning({of_texts({"0", "2"}, kNames)}, {from_one});
      },
      {"A: ", "0 to 2", "B", "1 to 3", "3 classes"});
  expect_conflict(
      [] {
        meaning({of_texts({"1", "3"})}, {of_texts({"0", "3"}, {}, "B")});
      },
      {"B: ", "0 to 3", "A", "1 to 3", "--first-label 0"});
  expect_conflict([] { meaning({of_texts({"4"}, kNames)}, {}); }, {"label 4", "3 classes"});
  expect_conflict([] { meaning({of_texts({"0"}, kNames)}, {}, 1); }, {"label 0", "--first-label"});
  expect_conflict(
      [] {
        meaning({of_texts({"0"}), of_texts({"cat"}, {}, "B")}, {});
      },
      {"'cat' in B", "label 0 in A"});
  expect_conflict([] { meaning({of_texts({"0", "cat"})}, {}); }, {"'0'", "'cat'"});
  expect_conflict([] { meaning({of_texts({"1"})}, {of_texts({"01"})}); }, {"'1'", "'01'"});
  expect_conflict([] { meaning({of_texts({"bee"}, kNames)}, {}); }, {"'bee'", "'owl'"});
  expect_conflict(
      [] {
        meaning({of_records({{1, "cat"}}), of_records({{2, "cat"}})}, {});
      },
      {"number 1 is 'cat' in A, but number 2 is 'cat' in A"});
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
  EXPECT_EQ(meaning({of_texts({"0", "10"}), of_texts({"2"})}, {}).ids,
            (std::vector<Ids>{{0, 10}, {2}}));
  EXPECT_EQ(meaning({of_texts({"b"}), of_texts({"a", "c"})}, {}).classes, (Texts{"a", "b", "c"}));
}

TEST(LabelMeaning, NamesInRecordsNameTheirNumbers) {
  const LabelMeaning decided = meaning({of_records({{1, "cat"}, {2, ""}, {-1, "cat"}})}, {});
  EXPECT_EQ(decided.classes, (Texts{"cat", "2"}));
  EXPECT_EQ(decided.ids.front(), (Ids{0, 1, 0}));
  EXPECT_EQ(meaning({of_records({{5, "cat"}, {9, "owl"}}, kNames)}, {}).ids.front(), (Ids{2, 0}));
  EXPECT_EQ(meaning({of_records({{1, "owl"}, {2, "dog"}}, kNames)}, {of_texts({"1"}, kNames)})
                .first_label,
            1);
  expect_conflict([] { meaning({of_records({{1, ""}, {-1, "cat"}})}, {}); }, {"'cat'", "label 1"});
  expect_conflict([] { meaning({of_records({{0, "1"}, {1, ""}})}, {}); }, {"'1'"});
}

TEST(LabelMeaning, ANumberAndItsGivenNameMustAgreeWhereNumbersCount) {
  EXPECT_EQ(meaning({of_records({{0, "cat"}, {1, "dog"}}, kNames)}, {}).ids.front(), (Ids{2, 1}));
  for (const RawLabel& other : {RawLabel{1, ""}, RawLabel{1, "ant"}})
    expect_conflict(
        [&] {
          meaning({of_records({{0, "cat"}, {1, "dog"}, other}, kNames)}, {});
        },
        {"'cat'", "line 3", "classes.txt"});
  expect_conflict(
      [] {
        meaning({of_records({{0, "cat"}}, kNames)}, {of_records({{1, ""}}, kNames)});
      },
      {"'cat'"});
}

TEST(LabelMeaning, NumbersThatAreNamesAreNames) {
  EXPECT_EQ(meaning({of_texts({"10", "2"}, {"2", "10", "x"})}, {}).ids.front(), (Ids{1, 0}));
  EXPECT_EQ(meaning({of_texts({"20240101", "x"})}, {}).classes, (Texts{"20240101", "x"}));
  EXPECT_EQ(meaning({of_texts({"001", "002"})}, {}).classes, (Texts{"001", "002"}));
}

TEST(LabelMeaning, NamesThatAreNumbersOfOtherClassesAreTold) {
  const Texts sorted = {"0", "1", "10", "2"};
  EXPECT_NE(meaning({of_texts({"1", "2"}, sorted)}, {}).note.find("'2'"), std::string::npos);
  EXPECT_EQ(meaning({of_texts({"10", "2"}, sorted)}, {}).note, "");  // 10 is no number of four
  EXPECT_EQ(meaning({of_texts({"0", "1"}, sorted)}, {}).note, "");
  EXPECT_EQ(meaning({of_texts({"1", "2"}, {"1", "2", "3"})}, {}).note, "");  // from 1 on
}

TEST(LabelMeaning, NamesOrNumbersIsOneDecision) {
  const Texts stars = {"1", "2", "3"};
  const FoundLabels few = of_texts({"1", "2"}, stars), all = of_texts({"0", "1", "2"}, stars);
  EXPECT_EQ(meaning({few}, {}).ids.front(), (Ids{0, 1}));
  for (const FoundLabels& numbers : {all, of_records({{0, ""}}, stars)}) {
    const LabelMeaning decided = meaning({few}, {numbers});
    EXPECT_EQ(decided.ids.front(), (Ids{1, 2}));
    EXPECT_NE(decided.note.find("read as numbers"), std::string::npos);
  }
  EXPECT_EQ(meaning({all, few}, {}).ids, (std::vector<Ids>{{0, 1, 2}, {1, 2}}));
  const Texts grades = {"1", "2", "none"};
  expect_conflict(
      [&] {
        meaning({of_texts({"1", "none"}, grades)}, {of_texts({"0", "2"}, grades, "B")});
      },
      {"A: ", "'1'", "'none'", "B"});
}

TEST(LabelMeaning, WhatBecameOfNumbersIsTold) {
  EXPECT_EQ(meaning({of_texts({"0", "1"})}, {}).note, "");
  EXPECT_NE(meaning({of_texts({"1", "2"})}, {}).note.find("one lower"), std::string::npos);
  EXPECT_NE(meaning({of_texts({"0", "7"})}, {}).note.find("0 to 7, of which 2"), std::string::npos);
  EXPECT_EQ(meaning({of_texts({"0", "2"}, kNames)}, {}).note, "");
  EXPECT_NE(meaning({of_texts({"0", "1"}, kNames)}, {}).note.find("no header"), std::string::npos);
}

TEST(LabelMeaning, BytesHoldAllThatIsDecidedUpon) {
  FoundLabels found = of_records({{1, "cat"}, {-1, "x"}}, kNames);
  found.ids = {0, 2};
  found.note = "n";
  found.reads_numbers = true;
  const FoundLabels again = from_bytes<FoundLabels>(to_bytes(found));
  EXPECT_EQ(again.labels, found.labels);
  EXPECT_EQ(again.names, found.names);
  EXPECT_TRUE(again.reads_numbers);
  EXPECT_EQ(again.ids, found.ids);
  EXPECT_EQ(again.note + again.named_by + again.where, "nclasses.txtA");
  EXPECT_THROW(from_bytes<FoundLabels>(to_bytes(found).substr(1)), InternalError);
}

}  // namespace
}  // namespace kiln
