// `kiln score --part`: what it makes of its text and of the environment, and what is
// refused with it.
#include <gtest/gtest.h>

#include "base/environment.h"
#include "cli/parse.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

Words score_part_words(const Words& more) {
  Words words = {"score", "--trained-model-path=m", "--data-path=d"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words part(const std::string& text, const std::string& output = "s.csv") {
  return score_part_words({"--output-path", output, "--part", text});
}

std::string output_of(const Words& words) {
  return parse_as<ScoreConfig>(words).output_path;
}

TEST(ScorePart, HasAFileOfItsOwn) {
  EXPECT_EQ(output_of(part("3/8")), "s.part-3-of-8.csv");
  EXPECT_EQ(output_of(part("3/16", "a.b/s.jsonl")), "a.b/s.part-03-of-16.jsonl");
  EXPECT_EQ(output_of(part("1/1", "a/s.parquet")), "a/s.parquet/part-1-of-1.parquet");
  EXPECT_FALSE(parse_as<ScoreConfig>(score_part_words({"--output-path=s.csv"})).part);
  for (const char* wrong : {"", "8", "0/8", "9/8", "3/", "/8", "-1/8", "3/8/2", "3 / 8", "auto/",
                            "auto/0", "auto/x", "1/1000000"})
    EXPECT_NE(fault(part(wrong)).find("--part"), std::string::npos) << wrong;
}

TEST(ScorePart, RefusesOutputsOfAllParts) {
  EXPECT_EQ(fault(score_part_words({"--part=1/2"})),
            "--part needs a file for the predictions: give --output-path FILE.");
  for (const char* option : {"--scored-dataset=x", "--explain=x"})
    EXPECT_EQ(faults(score_part_words({"--output-path=s.csv", "--part=1/2", option})).size(), 1U)
        << option;
  EXPECT_EQ(faults({"score", "--trained-model-path=m", "--files-from=-", "--output-path=s.csv",
                    "--part=1/2"})
                .size(),
            1U);
}

TEST(ScorePart, AutoIsThatOfAnArrayOfSlurm) {
  const Environment array({{"SLURM_ARRAY_TASK_ID", "12"},
                           {"SLURM_ARRAY_TASK_MIN", "10"},
                           {"SLURM_ARRAY_TASK_MAX", "17"},
                           {"SLURM_ARRAY_TASK_COUNT", "8"}});
  EXPECT_EQ(output_of(part("auto")), "s.part-3-of-8.csv");
  const Environment with_gaps(Environment::Values{{"SLURM_ARRAY_TASK_COUNT", "4"}});
  EXPECT_NE(fault(part("auto")).find("without gaps"), std::string::npos);
}

TEST(ScorePart, AutoIsThatOfAHostOfSageMaker) {
  const ScratchFolder folder;
  const Environment job(Environment::Values{{"SAGEMAKER_BASE_DIR", folder.path().string()}});
  folder.put("config/resourceconfig.json",
             R"({"current_host": "algo-2", "hosts": ["algo-1", "algo-2", "algo-3"]})");
  EXPECT_EQ(output_of(part("auto")), "s.part-2-of-3.csv");
  folder.put("config/resourceconfig.json", "{}");
  EXPECT_NE(fault(part("auto")).find("resourceconfig.json"), std::string::npos);
}

TEST(ScorePart, AutoIsThatOfARank) {
  const Environment ranks({{"RANK", "5"}, {"WORLD_SIZE", "16"}, {"LOCAL_RANK", "1"}});
  const auto config = parse_as<ScoreConfig>(part("auto"));
  EXPECT_EQ(config.output_path, "s.part-06-of-16.csv");
  EXPECT_EQ(config.part->local, 1);
  const Environment beyond(Environment::Values{{"RANK", "16"}});
  EXPECT_NE(fault(part("auto")).find("part 17 of 16"), std::string::npos);
}

TEST(ScorePart, AutoOfNIsThatOfAnIndexedJob) {
  const Environment pod(Environment::Values{{"JOB_COMPLETION_INDEX", "0"}});
  EXPECT_EQ(output_of(part("auto/8")), "s.part-1-of-8.csv");
  const Environment beyond(Environment::Values{{"JOB_COMPLETION_INDEX", "8"}});
  EXPECT_NE(fault(part("auto/8")).find("part 9 of 8"), std::string::npos);
}

TEST(ScorePart, AutoNeedsAnEnvironmentThatTells) {
  EXPECT_NE(fault(part("auto")).find("such as --part 3/8"), std::string::npos);
  EXPECT_NE(fault(part("auto/8")).find("JOB_COMPLETION_INDEX"), std::string::npos);
}

TEST(ScorePart, SeveralRanksWithoutPartsAreRefused) {
  const Words pack = {"pack", "in", "out"};
  for (const Environment::Values& launcher :
       {Environment::Values{{"OMPI_COMM_WORLD_SIZE", "2"}},
        Environment::Values{{"RANK", "0"}, {"WORLD_SIZE", "2"}},
        Environment::Values{{"PET_NNODES", "2"}}}) {
    const Environment ranks(launcher);
    EXPECT_NE(fault(score_part_words({"--output-path=s.csv"})).find("--part 1/8"),
              std::string::npos);
    EXPECT_EQ(faults(part("1/2")).size(), 0U);
    EXPECT_NE(fault(pack).find("start it once"), std::string::npos);
  }
  const Environment one(Environment::Values{{"OMPI_COMM_WORLD_SIZE", "1"}});
  EXPECT_EQ(faults(score_part_words({"--output-path=s.csv"})).size(), 0U);
  EXPECT_EQ(faults(pack).size(), 0U);
}

TEST(ScorePart, IsWhatReplacesRanks) {
  EXPECT_NE(fault(score_part_words({"--output-path=s.csv", "--ranks=2"})).find("--part 1/8"),
            std::string::npos);
}

}  // namespace
}  // namespace kiln
