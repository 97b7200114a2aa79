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

ExchangePlan exchange_of(const Words& words) {
  return parse_as<TrainConfig>(words).ranks.exchange;
}

TEST(ExchangeOptions, AreAllReduceByDefault) {
  const ExchangePlan plain = exchange_of(train());
  EXPECT_EQ(plain.kind->name, "all-reduce");
  EXPECT_EQ(plain.num_training_ranks(3), 3);
  EXPECT_EQ(plain.num_summed_ranks(3), 3);
  EXPECT_EQ(plain.kind->max_lag, 0);
}

TEST(ExchangeOptions, DivideTheRanks) {
  const ExchangePlan one = exchange_of(with_servers());
  EXPECT_EQ(one.num_training_ranks(3), 2);
  EXPECT_EQ(one.num_summed_ranks(3), 1);
  EXPECT_EQ(one.kind->max_lag, 4);
  EXPECT_EQ(exchange_of(train({"--exchange=Parameter_Server:2"})).num_training_ranks(3), 1);
}

TEST(ExchangeOptions, AreInRange) {
  for (const char* number : {"1", "1000"})
    EXPECT_EQ(fault(train({"--exchange", std::string("parameter-server:") + number})), "no fault");
  for (const char* number : {"-1", "0", "1001"}) {
    const std::string text =
        fault(train({"--exchange", std::string("parameter-server:") + number}));
    EXPECT_TRUE(text.starts_with(std::string("--exchange is ") + number + ", but must be")) << text;
  }
  for (const char* value : {"gossip", "all-reduce:2", "parameter-server:2.5"})
    EXPECT_NE(fault(train({"--exchange", value})), "no fault") << value;
  EXPECT_TRUE(fault(train({"--exchange=gossip"})).starts_with("--exchange is 'gossip'"));
}

TEST(ExchangeOptions, NeedAWorker) {
  const auto with_three = [](const char* ranks) {
    return fault(train({"--exchange=parameter-server:3", ranks}));
  };
  EXPECT_NE(with_three("--ranks=3").find("needs at least 4 ranks"), std::string::npos);
  EXPECT_EQ(with_three("--ranks=4"), "no fault");
  EXPECT_EQ(with_three("--ranks=auto"), "no fault");
}

TEST(ExchangeOptions, RefuseWhatServersHaveNoUseFor) {
  for (const char* option :
       {"--device=cuda", "--sync-batch-norm=True", "--freeze=backbone", "--ema=0.9",
        "--precision=fp16", "--shard-by=none", "--lr-scaling=sqrt"}) {
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
