#include "train/features/neighbors.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <set>

#include "train/features/likeness.h"

namespace kiln {
namespace {

// What a network gives: most of it in fewer directions than there are numbers.
at::Tensor low_rank(std::int64_t count, std::int64_t width, std::int64_t rank) {
  return at::randn({count, rank}).mm(at::randn({rank, width})) + 0.3 * at::randn({count, width});
}

// [Q, count], by cosines of all features.
at::Tensor exact(const at::Tensor& queries, const at::Tensor& rows, std::int64_t count) {
  return std::get<1>(unit_rows(queries).mm(unit_rows(rows).t()).topk(count, 1));
}

std::set<std::int64_t> places_in(const at::Tensor& places, std::int64_t row) {
  std::set<std::int64_t> all;
  for (std::int64_t k = 0; k < places.size(1); ++k) all.insert(places[row][k].item<std::int64_t>());
  return all;
}

class NeighborsOf : public testing::Test {
 protected:
  NeighborsOf() { at::manual_seed(4); }
};

TEST_F(NeighborsOf, WideFeaturesAreNearlyThoseOfAllNumbers) {
  constexpr std::int64_t kQueries = 100, kCount = 5;
  const at::Tensor rows = low_rank(20'000 + kQueries, 1024, 200);
  const at::Tensor known = rows.narrow(0, 0, 20'000), queries = rows.narrow(0, 20'000, kQueries);
  const Neighbors neighbors = neighbors_of(known);
  EXPECT_EQ(neighbors.rows.size(1), kNeighborAxes);
  EXPECT_EQ(neighbors.rows.scalar_type(), at::kHalf);
  const at::Tensor found = neighbors.nearest(queries, kCount),
                   right = exact(queries, known, kCount);
  std::int64_t num_found = 0;
  for (std::int64_t i = 0; i < kQueries; ++i)
    for (const std::int64_t place : places_in(found, i))
      num_found += static_cast<std::int64_t>(places_in(right, i).count(place));
  EXPECT_GE(static_cast<double>(num_found) / (kQueries * kCount), 0.95);
}

// In several chunks, with the nearest in any of them.
TEST_F(NeighborsOf, EachRowIsItsOwnNearest) {
  const at::Tensor rows = at::randn({20'000, 32});
  const Neighbors neighbors = neighbors_of(rows);
  EXPECT_FALSE(neighbors.axes.defined());
  const at::Tensor found = neighbors.nearest(rows.narrow(0, 7000, 12'000), 3);
  EXPECT_TRUE(found.select(1, 0).equal(at::arange(7000, 19'000)));
}

TEST_F(NeighborsOf, MoreThanThereAreIsAllOfThem) {
  const at::Tensor rows = at::randn({4, 16});
  const at::Tensor found = neighbors_of(rows).nearest(rows, 9);
  EXPECT_EQ(found.size(1), 4);
  EXPECT_EQ(places_in(found, 2).size(), 4U);
}

}  // namespace
}  // namespace kiln
