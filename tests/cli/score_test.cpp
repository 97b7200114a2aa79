#include <gtest/gtest.h>

#include "cli/parse.h"

namespace kiln {
namespace {

Words score(const Words& more) {
  Words words = {"score", "--trained-model-path", "m"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Score, DefaultsAreValidationsOwn) {
  const auto config = parse_as<ScoreConfig>(score({"--data-path", "d"}));
  EXPECT_EQ(config.trained_model_path, "m");
  EXPECT_EQ(config.data_path, "d");
  EXPECT_EQ(config.files_from, "");
  EXPECT_EQ(config.output_path, "");
  EXPECT_EQ(config.top_k, 0);
  EXPECT_FALSE(config.all_classes);
  EXPECT_EQ(config.prediction.precision, Precision::kFp32);
  EXPECT_EQ(config.prediction.max_bad_images.of(1000), 10);
}

TEST(Score, ImagesComeFromAPathOrAList) {
  EXPECT_EQ(parse_as<ScoreConfig>(score({"--files-from", "-"})).files_from, "-");
  EXPECT_EQ(parse_as<ScoreConfig>(score({"--files-from=l", "--data-path=d"})).data_path, "d");
  ErrorCode code{};
  const std::string text = fault(score({}), &code);
  EXPECT_EQ(code, ErrorCode::kParameterParsing);
  EXPECT_NE(text.find("--data-path"), std::string::npos);
  EXPECT_NE(text.find("--files-from"), std::string::npos);
}

TEST(Score, KnowsOtherProgramsWords) {
  EXPECT_NE(fault({"score", "--model", "m", "--trained-model-path=m", "--data-path=d"})
                .find("--trained-model-path"),
            std::string::npos);
  EXPECT_NE(fault(score({"--data-dir=d"})).find("`kiln score --trained-model-path m d`"),
            std::string::npos);
}

TEST(Score, AnswersFromAConfidenceOn) {
  const auto with = [](const char* option) {
    return parse_as<ScoreConfig>(score({"--data-path=d", option}));
  };
  EXPECT_EQ(with("--min-confidence=0.5").min_confidence, 0.5);
  EXPECT_EQ(with("--min-confidence=50%").min_confidence, 0.5);
  EXPECT_EQ(with("--answer-at=100%").answer_at, 1);
  EXPECT_EQ(with("--raw").answer_at, std::nullopt);
  for (const char* wrong : {"--answer-at=0", "--answer-at=1.01", "--answer-at=99.%x",
                            "--answer-at=nan", "--min-confidence=101%", "--min-confidence=%"})
    EXPECT_EQ(faults(score({"--data-path=d", wrong})).size(), 1u) << wrong;
  EXPECT_EQ(faults(score({"--data-path=d", "--answer-at=0.9", "--min-confidence=0.9"})).size(), 1u);
  EXPECT_EQ(faults(score({"--data-path=d", "--answer-at=0.9", "--raw"})).size(), 1u);
}

TEST(Score, GoesOnUnlessToldNotTo) {
  EXPECT_EQ(parse_as<ScoreConfig>(score({"--data-path=d"})).resume, ResumeChoice::kAuto);
  EXPECT_EQ(parse_as<ScoreConfig>(score({"--data-path=d", "--resume=never"})).resume,
            ResumeChoice::kNever);
  EXPECT_EQ(faults(score({"--data-path=d", "--resume=require"})).size(), 1u);
}

TEST(Score, ExplainsInAFolderOfItsOwn) {
  EXPECT_EQ(parse_as<ScoreConfig>(score({"--data-path=d"})).explain, "");
  EXPECT_EQ(parse_as<ScoreConfig>(score({"--data-path=d", "--explain=e"})).explain, "e");
  for (const char* wrong : {"--explain=d", "--explain=d/e", "--explain=.", "--explain=m/e"})
    EXPECT_NE(fault(score({"--data-path=d", wrong})).find("--explain"), std::string::npos) << wrong;
  EXPECT_EQ(faults(score({"--data-path=d", "--explain=e", "--output-path=e/s.csv"})).size(), 1u);
  EXPECT_EQ(faults(score({"--data-path=d", "--explain=e", "--scored-dataset=e"})).size(), 1u);
}

TEST(Score, RefusesNumbersOutOfRange) {
  for (const char* option : {"--top-k=0", "--batch-size=0", "--loader-threads=0",
                             "--max-bad-images=-1", "--max-bad-images=101%"})
    EXPECT_EQ(faults(score({"--data-path=d", option})).size(), 1u) << option;
}

}  // namespace
}  // namespace kiln
