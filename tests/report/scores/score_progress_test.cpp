#include "report/scores/score_progress.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"

namespace kiln {
namespace {

const ScoreProgress kProgress{
    .settings = {.rows = {{"--top-k", "3"}, {"the model", "resnet18 \xc3\xa4"}},
                 .bits = {{"--batch-size", "64"}}},
    .num_images = 312,
    .names = 0xFEDCBA9876543210,
    .num_labeled = 300,
    .num_right = 299,
    .num_unsure = 10,
    .num_bad = 2,
    .num_damaged = 1,
    .first_bad = "'a.png': \"no\nimage\"",
    .bytes = 12345,
    .hash = 7,
};

// The text with its first `part` replaced.
std::string with(const std::string& part, const std::string& other) {
  std::string text = format_score_progress(kProgress);
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return at == std::string::npos ? text : text.replace(at, part.size(), other);
}

TEST(ScoreProgress, ReadsWhatItWrites) {
  EXPECT_EQ(parse_score_progress(format_score_progress(kProgress)), kProgress);
  EXPECT_EQ(parse_score_progress(format_score_progress({})), ScoreProgress{});
}

TEST(ScoreProgress, TextsOfAnyBytesAreWritten) {
  ScoreProgress progress = kProgress;
  progress.settings.rows["--data-path"] = "/\xff";
  EXPECT_EQ(parse_score_progress(format_score_progress(progress)).settings.rows.at("--data-path"),
            "/\xef\xbf\xbd");
}

TEST(ScoreProgress, RefusesOtherTexts) {
  const std::string whole = format_score_progress(kProgress);
  for (const std::string& text : {std::string(),
                                  std::string("{}"),
                                  std::string("[]"),
                                  whole + "x",
                                  whole.substr(0, whole.size() / 2),
                                  with("\"version\": 2", "\"version\": 3"),
                                  with("\"images\": 312", "\"images\": -1"),
                                  with("\"images\": 312", "\"images\": 3.5"),
                                  with("\"images\": 312", "\"images\": 99999999999999999999"),
                                  with("\"images\": 312", "\"images\": \"312\""),
                                  with("\"images\": 312", "\"images\": 312, \"images\": 312"),
                                  with("\"images\": 312", "\"images\": 312, \"more\": 1"),
                                  with("\"right\": 299", "\"right\": 301"),
                                  with("\"bad\": 2", "\"bad\": 313"),
                                  with("\"labeled\": 300", "\"labeled\": 311"),
                                  with("\"unsure\": 10", "\"unsure\": 311"),
                                  with("\"3\"", "3"),
                                  with("fedcba9876543210", "FEDCBA9876543210"),
                                  with("fedcba9876543210", "fedcba98765432100"),
                                  with("\"hash\"", "\"hush\"")})
    EXPECT_THROW(parse_score_progress(text), JsonFault) << text;
}

TEST(ScoreProgress, RefusesWhatIsTooLarge) {
  EXPECT_THROW(parse_score_progress(with("a.png", std::string(kMaxProgressBytes, 'a'))), JsonFault);
}

TEST(ScoreProgress, DifferencesAreNamed) {
  EXPECT_TRUE(differences({{"--top-k", "1"}}, {{"--top-k", "1"}}).empty());
  EXPECT_EQ(
      differences({{"--top-k", "1"}, {"--raw", "True"}, {"--old", "x"}},
                  {{"--top-k", "3"}, {"--raw", "True"}, {"--answer-at", ""}}),
      (std::vector<std::string>{"--old was x and is now not given", "--top-k was 1 and is now 3"}));
}

}  // namespace
}  // namespace kiln
