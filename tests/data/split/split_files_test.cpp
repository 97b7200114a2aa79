// split.csv and --labels.
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "data/dataset/image_bytes.h"
#include "data/split/split_dataset.h"

namespace kiln {
namespace {

Dataset set_of(const std::vector<std::pair<std::string, int>>& images) {
  Dataset set;
  set.root = "photos";
  set.classes = {"cat", "dog"};
  for (const auto& [name, label] : images)
    set.samples.push_back({.file_name = name, .label = label, .id = 0, .size = {}});
  return set;
}

Dataset four() {
  return set_of({{"cat/1.jpg", 0}, {"cat/2.jpg", 0}, {"dog/a, b.jpg", 1}, {"dog/1.jpg", 1}});
}

// What is wrong, a line each.
std::string faults_of(const std::function<void()>& work) {
  Problems problems;
  problems.collect(work);
  std::string text;
  for (const Error& error : problems.errors()) {
    EXPECT_EQ(error.code(), ErrorCode::kUserError);
    text += error.message() + "\n";
  }
  return text;
}

std::string split_faults(const std::string& text) {
  return faults_of([&] { parse_split(text, "--split 'x.csv'", four(), {}); });
}

std::string label_faults(const std::string& text) {
  Dataset set = four();
  const std::string faults = faults_of([&] { apply_labels(text, "--labels 'x.csv'", set); });
  EXPECT_EQ(set.samples.size(), 4U);
  EXPECT_EQ(set.classes.size(), 2U);
  return faults;
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), text.npos) << word << "\n" << text;
}

TEST(SplitFile, ComesBackAsItWas) {
  const std::vector<Side> sides = {Side::kTrain, Side::kValid, Side::kTrain, Side::kValid};
  const std::string text = format_split(four(), sides, {0, 1, 2, 3});
  EXPECT_EQ(text,
            "path,label,set,group\ncat/1.jpg,cat,train,0\ncat/2.jpg,cat,valid,1\n"
            "\"dog/a, b.jpg\",dog,train,2\ndog/1.jpg,dog,valid,3\n");
  const SplitFile file = parse_split(text, "x", four(), {});
  EXPECT_EQ(file.sides, sides);
  EXPECT_EQ(file.num_other_labels, 0U);
}

TEST(SplitFile, MayNameImagesThatWereLeftOut) {
  const std::string text =
      "set,path\ntrain,cat/1.jpg\nvalid,cat/2.jpg\nvalid,dog/1.jpg\ntrain,\"dog/a, b.jpg\"\n"
      "valid,dog/gone.jpg\n";
  EXPECT_EQ(parse_split(text, "x", four(), {"dog/gone.jpg"}).sides.size(), 4U);
  expect_words(split_faults(text), {"1 path is not in 'photos': 'dog/gone.jpg'", "'cat/1.jpg'"});
}

TEST(SplitFile, CountsOtherLabels) {
  const std::string text =
      "path,label,set\ncat/1.jpg,dog,train\ncat/2.jpg,cat,valid\ndog/1.jpg,dog,valid\n"
      "\"dog/a, b.jpg\",lion,train\n";
  EXPECT_EQ(parse_split(text, "x", four(), {}).num_other_labels, 2U);
}

TEST(SplitFile, TellsAllThatIsWrong) {
  expect_words(split_faults(""), {"is empty"});
  expect_words(split_faults("path;set\n"), {"'path;set'", "'path'", "'set'"});
  expect_words(split_faults("path,set,set\n"), {"more than once"});
  expect_words(split_faults("path,set\ncat/1.jpg\n"), {"line 2: 1 fields"});
  expect_words(split_faults("path,set\ncat/1.jpg,train\ncat/1.jpg,valid\n"),
               {"'cat/1.jpg' (lines 2 and 3)"});
  expect_words(split_faults("path,set\ncat/1.jpg,test\nx.jpg,train\n"),
               {"'test' (line 2)", "'x.jpg'", "lacks 3 of the 4 images", "'cat/2.jpg'"});
  const std::string rows = "path,set\ncat/1.jpg,train\ncat/2.jpg,train\n\"dog/a, b.jpg\",";
  expect_words(split_faults(rows + "train\ndog/1.jpg,train\n"), {"no image with the set 'valid'"});
  expect_words(split_faults(rows + "valid\ndog/1.jpg,valid\n"),
               {"no image of class 'dog' has the set 'train'"});
}

TEST(Labels, ChangeAddAndLeaveOut) {
  Dataset set = four();
  const LabelChanges changes = apply_labels(
      "path,doubt,label\ncat/1.jpg,0.9,dog\ncat/2.jpg,0.8,lion\ndog/1.jpg,0.7,\n", "x", set);
  EXPECT_EQ(changes.num_changed, 2U);
  EXPECT_EQ(changes.left_out, std::vector<std::string>{"dog/1.jpg"});
  EXPECT_EQ(changes.new_classes, std::vector<std::string>{"lion"});
  EXPECT_EQ(changes.gone_classes, std::vector<std::string>{"cat"});
  EXPECT_EQ(set.classes, (std::vector<std::string>{"dog", "lion"}));
  ASSERT_EQ(set.samples.size(), 3U);
  EXPECT_EQ(set.samples.label(0), 0);
  EXPECT_EQ(set.samples.label(1), 1);
  EXPECT_EQ(set.samples.label(2), 0);
  EXPECT_NE(set.schema_json.find("lion"), std::string::npos);
}

TEST(Labels, FollowDecisions) {
  Dataset set = four();
  const LabelChanges changes = apply_labels(
      "decision,path,label\n Right,cat/1.jpg,cat\nrelabel,cat/2.jpg,dog\nleave out,dog/1.jpg,dog\n"
      ",\"dog/a, b.jpg\",dog\nright,gone.jpg,dog\n",
      "x", set, /*may_name_others=*/true);
  EXPECT_EQ(changes.num_decided, 3);
  EXPECT_EQ(changes.num_changed, 1U);
  EXPECT_EQ(changes.left_out, std::vector<std::string>{"dog/1.jpg"});
  EXPECT_EQ(changes.unknown, std::vector<std::string>{"gone.jpg"});
  EXPECT_EQ(changes.are_right, (std::vector<bool>{true, false, false}));
  set = four();
  EXPECT_EQ(apply_labels("path,label\ncat/1.jpg,cat\ncat/2.jpg,dog\n", "x", set).are_right,
            (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(apply_labels("path,label,decision\ncat/1.jpg,dog,right\n", "x", set).are_right,
            (std::vector<bool>{true, false, false, false}));
  expect_words(label_faults("path,label,decision\ncat/1.jpg,dog,maybe\ncat/2.jpg,,right\n"),
               {"line 2", "'maybe'", "line 3", "needs a label"});
  expect_words(
      label_faults("path,label,decision\ncat/1.jpg,dog,relabel\ncat/1.jpg,dog,leave out\n"),
      {"'cat/1.jpg' (lines 2 and 3)"});
}

TEST(Labels, OfOtherClassesLeaveNoneOfThoseBefore) {
  Dataset set = four();
  set.kind = Dataset::Kind::kLabelList;
  set.found.labels = {{.text = "cat"}, {.text = "dog"}};
  set.found.ids = {0, 1};
  apply_labels("path,label\ncat/1.jpg,lion\n", "x", set);
  const Dataset sent = dataset_of(to_bytes(set));
  EXPECT_EQ(sent.classes, (std::vector<std::string>{"cat", "dog", "lion"}));
  EXPECT_EQ(sent.samples.label(0), 2);
}

TEST(Labels, HaveNoBlanksAroundThem) {
  Dataset set = four();
  const LabelChanges changes =
      apply_labels("path,label\ncat/1.jpg, dog\ncat/2.jpg, \ndog/1.jpg,lion \n", "x", set);
  EXPECT_EQ(changes.new_classes, std::vector<std::string>{"lion"});
  EXPECT_EQ(changes.left_out, std::vector<std::string>{"cat/2.jpg"});
  EXPECT_EQ(set.classes, (std::vector<std::string>{"dog", "lion"}));
  set.classes = {"dog", "dog "};  // a folder's name
  apply_labels("path,label\ncat/1.jpg,dog \n", "x", set);
  EXPECT_EQ(set.samples.label(0), 1);
}

TEST(Labels, MayNameFilesAsListsDoAndWithoutTheirEnding) {
  Dataset set = four();
  EXPECT_EQ(apply_labels("filename,class\ncat/1,lion\n", "x", set).num_changed, 1U);
  EXPECT_EQ(set.classes[set.samples.label(0)], "lion");
  expect_words(label_faults("path,label\ncat/,dog\ndog,cat\n"), {"2 paths are not in"});
}

TEST(Labels, OfNobodyChangeNothing) {
  Dataset set = four();
  const LabelChanges changes = apply_labels("path,label\ncat/1.jpg,cat\n", "x", set);
  EXPECT_EQ(changes.num_changed, 0U);
  EXPECT_TRUE(changes.new_classes.empty());
  EXPECT_EQ(set.classes, four().classes);
}

TEST(Labels, TellAllThatIsWrong) {
  expect_words(label_faults("photo,label\n"), {"'photo,label'", "'path'"});
  expect_words(label_faults("path\n"), {"'label'"});
  expect_words(label_faults("path,label\ncat/1.jpg,dog\ncat/1.jpg,cat\n"),
               {"'cat/1.jpg' (lines 2 and 3)"});
  expect_words(label_faults("path,label\nphotos/cat/1.jpg,dog\ncat/2.jpg,a\tb\n"),
               {"1 path is not in", "such as 'cat/1.jpg'", "line 3: the label"});
  expect_words(label_faults("path,label\ncat/1.jpg,\ncat/2.jpg,\n\"dog/a, b.jpg\",\ndog/1.jpg,\n"),
               {"drops every image"});
  expect_words(label_faults("path,label\n\"cat/1.jpg,dog\n"), {"line 2", "never closed"});
}

}  // namespace
}  // namespace kiln
