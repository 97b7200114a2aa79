#include "tools/tune/search.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TrialResult rate(double images_per_second) {
  return {.images_per_second = images_per_second};
}

TEST(TuneSearch, TriesEachKindWithTheBestOfThoseBefore) {
  Search search({{"threads", {{{"threads", "1"}}, {{"threads", "4"}}}},
                 {"ranks", {}, "no mpirun"},
                 {"loader-threads", {{{"loader-threads", "1"}}}}});
  EXPECT_EQ(search.next(), Trial{});
  search.add(rate(100));
  EXPECT_EQ(search.next(), (Trial{{"threads", "1"}}));
  search.add(rate(50));
  EXPECT_EQ(search.next(), (Trial{{"threads", "4"}}));
  search.add(rate(150));
  EXPECT_EQ(search.next(), (Trial{{"threads", "4"}, {"loader-threads", "1"}}));
  search.add(rate(151));
  EXPECT_EQ(search.next(), std::nullopt);
  EXPECT_EQ(search.best(), (Trial{{"threads", "4"}})) << "1 % more is chance";
  EXPECT_EQ(search.best_rate(), 150);
  EXPECT_EQ(search.first_rate(), 100);
}

TEST(TuneSearch, AFaultIsNeverTheBest) {
  Search search({{"ranks", {{{"ranks", "2"}}}}});
  search.add(rate(100));
  TrialResult failed = rate(500);
  failed.fault = "out of memory";
  search.add(failed);
  EXPECT_EQ(search.next(), std::nullopt);
  EXPECT_EQ(search.best(), Trial{});
}

TEST(TuneSearch, NothingToTryIsTheJobAsItIs) {
  Search search({});
  EXPECT_EQ(search.next(), Trial{});
  search.add(rate(10));
  EXPECT_EQ(search.next(), std::nullopt);
  EXPECT_EQ(settings_text(search.best()), "as given");
}

TEST(TuneSearch, LaterChangesReplaceEarlierOnes) {
  const Trial base = {{"batch-size", "32"}, {"ranks", "2"}};
  EXPECT_EQ(settings_text(changed(base, {{"batch-size", "16"}})), "ranks 2, batch-size 16");
}

}  // namespace
}  // namespace kiln
