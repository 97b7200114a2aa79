#include <gtest/gtest.h>

#include "cli/parse.h"

namespace kiln {
namespace {

// `kiln launch OWN -- train …paths… MORE`.
Words launch(const Words& own, const Words& more = {}) {
  Words words = {"launch"};
  words.insert(words.end(), own.begin(), own.end());
  words.emplace_back("--");
  const Words inner = train(more);
  words.insert(words.end(), inner.begin(), inner.end());
  return words;
}

TEST(Launch, SplitsItsOptionsFromTheRanksCommandLine) {
  const auto config = parse_as<LaunchConfig>(
      launch({"--ranks", "3", "--hosts", "node1:2,node-2.example"}, {"--epochs", "9"}));
  EXPECT_EQ(config.ranks, 3);
  ASSERT_EQ(config.hosts.size(), 2u);
  EXPECT_EQ(config.hosts[0].name, "node1");
  EXPECT_EQ(config.hosts[0].slots, 2);
  EXPECT_EQ(config.hosts[1].name, "node-2.example");
  EXPECT_EQ(config.hosts[1].slots, 1);
  EXPECT_EQ(config.rank_arguments, train({"--epochs", "9"}));
  EXPECT_EQ(parse_as<LaunchConfig>(launch({"--ranks", "auto"})).ranks, 0);
}

TEST(Launch, TheRanksShareTheLogPath) {
  const Words words = launch({"--ranks=2", "--log-path", "x"});
  const auto config = parse_as<LaunchConfig>(words);
  EXPECT_EQ(config.log_path, "x");
  EXPECT_EQ(log_path(words), "x");
  EXPECT_EQ(config.rank_arguments, train({"--log-path", "x"}));
  EXPECT_EQ(log_path(launch({"--ranks=2", "--log-path", "x"}, {"--epochs", "9", "--"})), "x");
  EXPECT_EQ(log_path(launch({"--ranks=2"}, {"--log-path", "y"})), "y");
  EXPECT_EQ(log_path(launch({"--ranks=2"})), "logs");
  EXPECT_EQ(log_path(launch({"--ranks=0", "--log-path", "x"}, {"--epochs", "0"})), "x");
  EXPECT_EQ(log_path({"launch", "--ranks=2", "--log-path", "x"}), "x");
  EXPECT_EQ(fault(launch({"--ranks=2", "--log-path", "x"}, {"--log-path", "y"})),
            "--log-path is given twice, as 'y' and as 'x': give it once.");
}

TEST(Launch, FaultsOfBothPartsAreReportedTogether) {
  const std::vector<Error> all = faults(launch({"--rank", "2"}, {"--epoch", "3"}));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].message(), "--rank is not an option of `kiln launch`. Did you mean '--ranks'?");
  EXPECT_EQ(all[1].message(), "--epoch is not an option of `kiln train`. Did you mean '--epochs'?");
  EXPECT_EQ(log_path(launch({"--ranks=2"}, {"--epochs", "0", "--log-path", "z"})), "z");
}

TEST(Launch, CommandLineFaultsOfEitherPartComeFirst) {
  const std::vector<Error> all =
      faults(launch({"--ranks", "0"}, {"--epochs", "0", "--patience", "x", "--ranks", "2"}));
  ASSERT_EQ(all.size(), 4u);
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(exit_code(all[i].code()), i < 2 ? 2 : 1) << all[i].message();
  EXPECT_EQ(faults({"launch", "--ranks", "0"}).front().code(), ErrorCode::kParameterParsing);
}

TEST(Launch, RefusesContradictions) {
  EXPECT_EQ(fault({"launch", "--ranks", "2"}),
            "`kiln launch` starts training: end the command line with `-- train …`.");
  EXPECT_EQ(fault({"launch", "--ranks", "2", "--"}), fault({"launch", "--ranks", "2"}));
  EXPECT_EQ(fault({"launch", "--ranks", "2", "--", "inspect", "x"}),
            fault({"launch", "--ranks", "2"}));
  EXPECT_TRUE(fault({"launch", "--ranks", "2", "--", "score", "--ranks", "2"}).find("--part 1/8") !=
              std::string::npos);
  EXPECT_TRUE(fault({"launch", "--ranks", "2", "--", "pack", "in", "out"}).find("start it once") !=
              std::string::npos);
  EXPECT_EQ(fault(launch({"--ranks", "0"})),
            "--ranks is 0, but must be greater than 0 (range auto, or 1 to 4096).");
  EXPECT_EQ(fault(launch({})).substr(0, 26), "--ranks N|auto is missing ");
  EXPECT_EQ(fault(launch({"--ranks", "5", "--hosts", "a:2,b:2"})),
            "--ranks is 5, but the slots of --hosts add up to 4: raise the number after a colon.");
  EXPECT_EQ(fault(launch({"--ranks", "2"}, {"--ranks", "2"})),
            "--ranks is given to both launch and train: give it once, before the `--`.");
  for (const char* hosts : {"a:0", "a:", ":2", "a,,b", "a:2,", "a:x", "a:99999", "-x:1", "a b:1"}) {
    EXPECT_TRUE(fault(launch({"--ranks", "1", "--hosts", hosts})).starts_with("--hosts ")) << hosts;
  }
}

TEST(Launch, ShowsTheHelpOfEitherPart) {
  EXPECT_NE(parse_as<HelpRequest>({"launch", "--help"}).text.find("--hosts"), std::string::npos);
  EXPECT_EQ(parse_as<HelpRequest>(launch({"--ranks", "2"}, {"--help"})).text,
            parse_as<HelpRequest>({"train", "--help"}).text);
}

TEST(Train, RanksAreEmptyUnlessGiven) {
  EXPECT_FALSE(parse_as<TrainConfig>(train()).ranks.launch.has_value());
  EXPECT_EQ(parse_as<TrainConfig>(train({"--ranks", "auto"})).ranks.launch, 0);
  EXPECT_EQ(parse_as<TrainConfig>(train({"--ranks", "4"})).ranks.launch, 4);
}

TEST(Train, KeepsTheCommandLineOfItsRanks) {
  const Words words = train({"--ranks=2", "--epochs", "3"});
  EXPECT_EQ(parse_as<TrainConfig>(words).ranks.arguments, words);
}

}  // namespace
}  // namespace kiln
