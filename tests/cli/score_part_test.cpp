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

Environment::Values array_task(const char* task, const char* first, const char* last,
                               const char* count) {
  return {{"SLURM_ARRAY_TASK_ID", task},
          {"SLURM_ARRAY_TASK_MIN", first},
          {"SLURM_ARRAY_TASK_MAX", last},
          {"SLURM_ARRAY_TASK_COUNT", count}};
}

TEST(ScorePart, AutoIsThatOfAWholeArrayOfSlurm) {
  {
    const Environment from_1(array_task("3", "1", "8", "8"));
    EXPECT_EQ(output_of(part("auto")), "s.part-3-of-8.csv");
    EXPECT_EQ(output_of(part("auto/8")), "s.part-3-of-8.csv");
    EXPECT_NE(fault(part("auto/9")), "no fault");
  }
  {
    const Environment from_0(array_task("3", "0", "7", "8"));
    EXPECT_EQ(output_of(part("auto")), "s.part-4-of-8.csv");
  }
  {
    const Environment at_steps(array_task("5", "1", "9", "5"));  // 1-9:2
    EXPECT_EQ(output_of(part("auto/5")), "s.part-3-of-5.csv");
    EXPECT_NE(fault(part("auto")), "no fault") << "1,3,5,7,9 of a larger array, for all it knows";
  }
  const Environment from_10(array_task("12", "10", "17", "8"));
  EXPECT_EQ(output_of(part("auto/8")), "s.part-3-of-8.csv");
}

TEST(ScorePart, ATaskThatIsStartedAgainNeedsItsPart) {
  for (const Environment::Values& values :
       {array_task("3", "3", "4", "2"), array_task("3", "3", "3", "1"),
        array_task("0", "0", "0", "1"), array_task("1", "1", "3", "2"),
        array_task("2", "1", "7", "3")}) {
    const Environment again(values);
    for (const char* text : {"auto", "auto/8"})
      EXPECT_NE(fault(part(text))
                    .find("--part $SLURM_ARRAY_TASK_ID/N if that began at 1, "
                          "$((SLURM_ARRAY_TASK_ID + 1))/N if at 0"),
                std::string::npos)
          << text << " " << values.at("SLURM_ARRAY_TASK_ID");
  }
}

TEST(ScorePart, VariablesThatAreNoNumbersInRangeAreRefusedByName) {
  const std::pair<Environment::Values, const char*> cases[] = {
      {{{"RANK", "two"}, {"WORLD_SIZE", "2"}}, "RANK is 'two'"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, "RANK is '-1'"},
      {{{"RANK", "1x"}, {"WORLD_SIZE", "2"}}, "RANK is '1x'"},
      {{{"RANK", "4294967296"}, {"WORLD_SIZE", "2"}}, "RANK is '4294967296'"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "x"}}, "LOCAL_RANK is 'x'"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
       "LOCAL_RANK is 2"},
      {array_task("three", "1", "8", "8"), "SLURM_ARRAY_TASK_ID is 'three'"}};
  for (const auto& [values, words] : cases) {
    const Environment wrong(values);
    EXPECT_NE(fault(part("auto")).find(words), std::string::npos) << fault(part("auto"));
  }
  const Environment pod(Environment::Values{{"JOB_COMPLETION_INDEX", "two"}});
  EXPECT_NE(fault(part("auto/3")).find("JOB_COMPLETION_INDEX is 'two'"), std::string::npos);
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
  EXPECT_NE(fault(part("auto")).find("RANK is 16"), std::string::npos);
}

TEST(ScorePart, AutoOfNIsThatOfAnIndexedJob) {
  const Environment pod(Environment::Values{{"JOB_COMPLETION_INDEX", "0"}});
  EXPECT_EQ(output_of(part("auto/8")), "s.part-1-of-8.csv");
  const Environment beyond(Environment::Values{{"JOB_COMPLETION_INDEX", "8"}});
  EXPECT_NE(fault(part("auto/8")).find("JOB_COMPLETION_INDEX is 8"), std::string::npos);
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
