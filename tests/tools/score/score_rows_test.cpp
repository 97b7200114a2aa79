// The parts of a scoring job have its images once, in its batches.
#include "tools/score/score.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace kiln {
namespace {

// The first images of the batches of an undivided job.
std::set<std::int64_t> batches_of(std::int64_t num_images, std::int64_t batch_size,
                                  std::int64_t portion) {
  std::set<std::int64_t> firsts;
  for (std::int64_t begin = 0; begin < num_images; begin += portion)
    for (std::int64_t i = begin; i < std::min(begin + portion, num_images); i += batch_size)
      firsts.insert(i);
  return firsts;
}

TEST(ScoreRows, PartsAreWholeBatchesInOrder) {
  for (const std::int64_t num_images : {0, 1, 5, 12, 13, 24, 25, 100})
    for (const std::int64_t batch_size : {1, 5, 12, 64})
      for (const std::int64_t portion : {12, 100}) {
        const std::set<std::int64_t> batches = batches_of(num_images, batch_size, portion);
        for (const int count : {1, 2, 3, 8, 200}) {
          std::int64_t next = 0;
          std::set<std::size_t> sizes;  // in batches
          for (int number = 1; number <= count; ++number) {
            const ScoreRows rows =
                rows_of_part({.number = number, .count = count}, num_images, batch_size, portion);
            EXPECT_EQ(rows.begin, next);
            EXPECT_TRUE(rows.begin == num_images || batches.contains(rows.begin));
            sizes.insert(static_cast<std::size_t>(
                std::distance(batches.lower_bound(rows.begin), batches.lower_bound(rows.end))));
            next = rows.end;
          }
          EXPECT_EQ(next, num_images);
          EXPECT_LE(*sizes.rbegin() - *sizes.begin(), 1U);
        }
      }
}

TEST(ScoreRows, TheNoteOfAPartInAFolderIsHidden) {
  EXPECT_EQ(part_note_path("a/s.part-1-of-2.csv"), "a/s.part-1-of-2.csv.json");
  EXPECT_EQ(part_note_path("s.parquet/part-1-of-2.parquet"), "s.parquet/_part-1-of-2.parquet.json");
}

}  // namespace
}  // namespace kiln
