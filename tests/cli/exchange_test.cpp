// --exchange and what belongs to it.
#include <gtest/gtest.h>

#include <string>

#include "cli/parse.h"

namespace kiln {
namespace {

Words with_servers(const Words& more = {}) {
  Words words = train({"--exchange=parameter-server"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(ExchangeOptions, AreAllReduceByDefault) {
  const ExchangeConfig plain = parse_as<TrainConfig>(train()).ranks.exchange;
  EXPECT_EQ(plain.name, "all-reduce");
  EXPECT_EQ(plain.num_workers(3), 3);
  EXPECT_EQ(plain.vote_delay(), 0);
}

TEST(ExchangeOptions, DivideTheRanks) {
  const ExchangeConfig one = parse_as<TrainConfig>(with_servers()).ranks.exchange;
  EXPECT_EQ(one.num_workers(3), 2);
  EXPECT_EQ(one.vote_delay(), 4);
  const ExchangeConfig more =
      parse_as<TrainConfig>(with_servers({"--servers=2", "--staleness=0", "--ranks=3"}))
          .ranks.exchange;
  EXPECT_EQ(more.num_workers(3), 1);
  EXPECT_EQ(more.vote_delay(), 0);
}

TEST(ExchangeOptions, AreInRange) {
  for (const char* option : {"--servers=1", "--servers=1000", "--staleness=0", "--staleness=1000"})
    EXPECT_EQ(fault(with_servers({option})), "no fault") << option;
  for (const char* option : {"--staleness=-1", "--staleness=1001", "--staleness=2.5", "--servers=0",
                             "--servers=-1", "--servers=1001"}) {
    std::string beginning = option;
    beginning.replace(beginning.find('='), 1, " is ");
    const std::string text = fault(with_servers({option}));
    EXPECT_TRUE(text.starts_with(beginning) || text.starts_with("--staleness is '2.5'")) << text;
  }
  EXPECT_TRUE(fault(train({"--exchange=gossip"})).starts_with("--exchange is 'gossip'"));
}

TEST(ExchangeOptions, NeedAWorker) {
  const std::string none = fault(with_servers({"--servers=3", "--ranks=3"}));
  EXPECT_TRUE(none.starts_with("--servers is 3, but --ranks is 3")) << none;
  EXPECT_EQ(fault(with_servers({"--servers=3", "--ranks=4"})), "no fault");
  EXPECT_EQ(fault(with_servers({"--servers=3", "--ranks=auto"})), "no fault");
}

TEST(ExchangeOptions, AreOfAParameterServerAlone) {
  for (const char* option : {"--servers=1", "--staleness=2"}) {
    const std::string alone = fault(train({option}));
    EXPECT_NE(alone.find("add --exchange parameter-server"), std::string::npos) << alone;
  }
}

TEST(ExchangeOptions, RefuseWhatServersHaveNoUseFor) {
  for (const char* option :
       {"--device=cuda", "--sync-batch-norm=True", "--freeze=backbone", "--ema=0.9",
        "--precision=fp16", "--shard-by=none", "--lr-scaling=sqrt", "--gradient-dtype=bf16"}) {
    const std::string text = fault(with_servers({option}));
    const std::string name = std::string(option).substr(0, std::string(option).find('='));
    EXPECT_TRUE(text.starts_with(name)) << option << ": " << text;
    EXPECT_NE(text.find("--exchange parameter-server"), std::string::npos) << text;
  }
  for (const char* option : {"--accumulate=2", "--lr-scaling=0.5", "--lr-scaling=none",
                             "--freeze=norm", "--precision=bf16", "--clip-norm=1"})
    EXPECT_EQ(fault(with_servers({option})), "no fault") << option;
}

}  // namespace
}  // namespace kiln
