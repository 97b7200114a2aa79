#include "train/exchange/exchange.h"

#include <gtest/gtest.h>

#include <numeric>

namespace kiln {
namespace {

using Shares = std::vector<std::vector<std::size_t>>;

// Of each server.
std::vector<std::size_t> bytes_of(const Shares& shares, const std::vector<std::size_t>& bytes) {
  std::vector<std::size_t> held;
  for (const std::vector<std::size_t>& share : shares)
    held.push_back(
        std::accumulate(share.begin(), share.end(), std::size_t{0},
                        [&](std::size_t sum, std::size_t tensor) { return sum + bytes[tensor]; }));
  return held;
}

TEST(SpreadEvenly, GivesOneServerAll) {
  EXPECT_EQ(spread_evenly({3, 1, 2}, 1), (Shares{{0, 1, 2}}));
}

TEST(SpreadEvenly, GivesTheLargestToTheLightest) {
  EXPECT_EQ(spread_evenly({1, 7, 4, 3, 1}, 2), (Shares{{0, 1}, {2, 3, 4}}));
  EXPECT_EQ(spread_evenly({5, 5, 5}, 3), (Shares{{0}, {1}, {2}}));
}

// As in a ResNet: few large tensors at the end, and many small ones.
TEST(SpreadEvenly, DiffersByNoMoreThanTheSmallTensorsCanFill) {
  std::vector<std::size_t> bytes;
  for (std::size_t stage = 0; stage < 4; ++stage)
    for (int block = 0; block < 4; ++block) {
      bytes.push_back(std::size_t{147'456} << (2 * stage));
      bytes.push_back(std::size_t{256} << stage);
    }
  const std::size_t all = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
  for (const int servers : {1, 2, 4}) {
    const Shares shares = spread_evenly(bytes, servers);
    const std::vector<std::size_t> held = bytes_of(shares, bytes);
    EXPECT_EQ(std::accumulate(held.begin(), held.end(), std::size_t{0}), all);
    const auto [least, most] = std::minmax_element(held.begin(), held.end());
    EXPECT_LE(*most - *least, all / 1000) << servers;
  }
}

TEST(SpreadEvenly, LeavesServersThatAreTooManyEmpty) {
  EXPECT_EQ(spread_evenly({2, 9}, 3), (Shares{{1}, {0}, {}}));
}

TEST(ServerClock, CountsTheUpdatesOfOthersSinceAWorkerGotItsWeights) {
  ServerClock clock(3);
  const auto serve = [&clock](int worker) {
    const std::int64_t staleness = clock.staleness(worker);
    clock.add_update();
    clock.add_pull(worker);
    return staleness;
  };
  EXPECT_EQ(serve(0), 0);
  EXPECT_EQ(serve(1), 1);
  EXPECT_EQ(serve(2), 2);
  EXPECT_EQ(serve(0), 2) << "of even workers, all but itself";
  EXPECT_EQ(serve(0), 0) << "no other has come";
  EXPECT_EQ(serve(1), 3) << "a slow one";
  clock.add_join();
  EXPECT_EQ(clock.staleness(2), 0);
}

TEST(ServerClock, DividesTheRateByTheStaleness) {
  ServerClock clock(2);
  EXPECT_DOUBLE_EQ(clock.rate(0.1, 0), 0.1);
  clock.add_update();
  EXPECT_DOUBLE_EQ(clock.rate(0.1, 0), 0.1);
  clock.add_update();
  EXPECT_DOUBLE_EQ(clock.rate(0.1, 0), 0.05);
}

}  // namespace
}  // namespace kiln
