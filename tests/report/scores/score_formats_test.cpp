#include "report/scores/score_formats.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace kiln {
namespace {

std::string row_of(const char* extension, const ScoreColumns& columns, const Score& score) {
  return find_score_format(extension)->encoder(columns)->row(score);
}

std::string header_of(const ScoreColumns& columns) {
  return find_score_format(".csv")->encoder(columns)->begin();
}

const Score kCat{.path = "a/1.jpg",
                 .true_label = "dog",
                 .best = {{1, 0.75f}, {0, 0.2f}},
                 .probabilities = {0.2f, 0.75f, 0.05f},
                 .fault = {}};
const Score kBad{
    .path = "2.jpg", .true_label = {}, .best = {}, .probabilities = {}, .fault = "file missing"};

TEST(ScoreFormats, AreFoundByExtensionInAnyCase) {
  EXPECT_EQ(find_score_format(".CSV"), find_score_format(".csv"));
  EXPECT_NE(find_score_format(".csv"), find_score_format(".jsonl"));
  EXPECT_NE(find_score_format(""), nullptr);
  for (const char* unknown : {".cs", ".csv2", ".parq", ".", "csv"})
    EXPECT_EQ(find_score_format(unknown), nullptr) << unknown;
  EXPECT_EQ(score_extensions(), ".csv, .jsonl or .parquet");
}

TEST(ScoreFormats, LinesCanBeGoneOnFrom) {
  for (const char* extension : {"", ".csv", ".jsonl"})
    EXPECT_TRUE(find_score_format(extension)->is_lines) << extension;
  EXPECT_FALSE(find_score_format(".parquet")->is_lines);
}

TEST(ScoreFormats, ColumnsFollowWhatIsAsked) {
  EXPECT_EQ(header_of({.labels = {"dog", "cat"}}), "path,label,confidence,fault\r\n");
  EXPECT_EQ(
      header_of({.labels = {"dog", "cat"}, .top_k = 2, .all_classes = true, .true_labels = true}),
      "path,label,confidence,true_label,label_2,confidence_2,probability_dog,"
      "probability_cat,fault\r\n");
}

TEST(ScoreFormats, ClassesOfOneNameHaveColumnsOfTheirOwn) {
  EXPECT_EQ(header_of({.labels = {"Others", "cat", "Others"}, .all_classes = true}),
            "path,label,confidence,probability_Others (0),probability_cat,probability_Others (2),"
            "fault\r\n");
}

TEST(ScoreFormats, NamesOfManyClassesAreComparedOnce) {
  ScoreColumns columns{.labels = {}, .all_classes = true};
  for (int id = 0; id < 400'000; ++id) columns.labels.push_back("class " + std::to_string(id / 2));
  const std::string header = header_of(columns);  // each with each would take minutes
  EXPECT_NE(header.find(",probability_class 7 (14),probability_class 7 (15),"), header.npos);
}

TEST(ScoreFormats, CsvHasAValueForEachColumn) {
  const ScoreColumns all{
      .labels = {"dog", "cat", "x"}, .top_k = 2, .all_classes = true, .true_labels = true};
  EXPECT_EQ(row_of(".csv", all, kCat), "a/1.jpg,cat,0.75,dog,dog,0.2,0.2,0.75,0.05,\r\n");
  EXPECT_EQ(row_of(".csv", all, kBad), "2.jpg,,,,,,,,,file missing\r\n");
}

TEST(ScoreFormats, AnUnsureAnswerIsAGuess) {
  const ScoreColumns columns{.labels = {"dog", "cat"}, .guesses = true};
  EXPECT_EQ(header_of(columns), "path,label,confidence,guess,fault\r\n");
  Score score = kCat;
  EXPECT_EQ(row_of(".csv", columns, score), "a/1.jpg,cat,0.75,,\r\n");
  score.is_unsure = true;
  EXPECT_EQ(row_of(".csv", columns, score), "a/1.jpg,,0.75,cat,\r\n");
  EXPECT_EQ(row_of(".csv", columns, kBad), "2.jpg,,,,file missing\r\n");
  EXPECT_NE(row_of("", columns, score).find("unsure"), std::string::npos);
}

TEST(ScoreFormats, CsvIsQuotedAsRfc4180Says) {
  const ScoreColumns columns{.labels = {"say \"hi\", twice"}};
  const Score score{.path = "a,b\r\n.jpg",
                    .true_label = {},
                    .best = {{0, 1.0f}},
                    .probabilities = {},
                    .fault = {}};
  EXPECT_EQ(row_of(".csv", columns, score), "\"a,b\r\n.jpg\",\"say \"\"hi\"\", twice\",1,\r\n");
}

TEST(ScoreFormats, JsonLinesReadBackWhatWasGiven) {
  const ScoreColumns columns{
      .labels = {"dog", "k\xc3\xa4tzchen \"", "x"}, .top_k = 2, .all_classes = true};
  const auto cat = nlohmann::json::parse(row_of(".jsonl", columns, kCat));
  EXPECT_EQ(cat["label"], "k\xc3\xa4tzchen \"");
  EXPECT_EQ(cat["confidence"].get<float>(), 0.75f);
  EXPECT_EQ(cat["confidence_2"].get<float>(), 0.2f);
  EXPECT_EQ(cat["probability_x"].get<float>(), 0.05f);
  EXPECT_TRUE(cat["fault"].is_null());
  EXPECT_EQ(cat.size(), 9u);
  const auto bad = nlohmann::json::parse(row_of(".jsonl", columns, kBad));
  EXPECT_TRUE(bad["label"].is_null());
  EXPECT_TRUE(bad["probability_dog"].is_null());
  EXPECT_EQ(bad["fault"], "file missing");
  EXPECT_EQ(bad.size(), cat.size());
}

TEST(ScoreFormats, JsonLinesTakeFileNamesOfAnyBytes) {
  Score score = kCat;
  score.path = "\xff.jpg";
  EXPECT_EQ(nlohmann::json::parse(row_of(".jsonl", {.labels = {"dog", "cat"}}, score))["path"],
            "\\xff.jpg");
}

TEST(ScoreFormats, SeveralLabelsHaveSemicolons) {
  const ScoreColumns columns{
      .labels = {"dog", "cat"}, .true_labels = true, .unsure_text = "none: "};
  Score score{.path = "a.jpg",
              .true_label = "dog",
              .best = {{0, 0.75F}, {1, 0.5F}},
              .probabilities = {},
              .fault = {}};
  score.labels = {0, 1};
  EXPECT_EQ(row_of(".csv", columns, score), "a.jpg,cat;dog,0.75,dog,\r\n");
  EXPECT_EQ(row_of("", columns, score),
            "a.jpg: cat;dog: dog 75.0 %, cat 50.0 % (true label: dog)\n");
  score.labels->clear();
  score.is_unsure = true;
  EXPECT_EQ(nlohmann::json::parse(row_of(".jsonl", columns, score))["label"], "");
  EXPECT_EQ(row_of("", columns, score), "a.jpg: none: dog 75.0 %, cat 50.0 % (true label: dog)\n");
}

TEST(ScoreFormats, ReadableLinesNameClassesOrTheFault) {
  const ScoreColumns columns{.labels = {"dog", "cat"}, .top_k = 2};
  EXPECT_EQ(row_of("", columns, kCat), "a/1.jpg: cat 75.0 %, dog 20.0 % (true label: dog)\n");
  const std::string bad = row_of("", columns, kBad);
  EXPECT_NE(bad.find("2.jpg"), std::string::npos);
  EXPECT_NE(bad.find("file missing"), std::string::npos);
}

}  // namespace
}  // namespace kiln
