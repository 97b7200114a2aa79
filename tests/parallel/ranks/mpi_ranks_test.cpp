// Run by mpirun with several ranks; every rank runs the same tests in the same order.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "parallel/gradients/communicator.h"
#include "parallel/rank_main.h"
#include "parallel/ranks/world.h"

namespace kiln {
namespace {

World* world = nullptr;

class MpiRanks : public testing::Test {
 protected:
  void sum(const at::Tensor& values) { communicator_->wait(communicator_->all_reduce(values)); }

  std::unique_ptr<Communicator> communicator_ = make_mpi_communicator(*world->mpi());
  int ranks_ = world->size();
  double sum_of_ranks_ = ranks_ * (ranks_ - 1) / 2.0;
};

TEST_F(MpiRanks, TheWorldHasTheStartedRanks) {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  ASSERT_NE(size, nullptr);
  EXPECT_EQ(ranks_, std::atoi(size));
  EXPECT_EQ(world->rank(), std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")));
  EXPECT_EQ(world->local_size(), ranks_);
}

TEST_F(MpiRanks, SumsOfAllTypesAndOddLengths) {
  for (const auto type : {at::kFloat, at::kDouble, at::kLong}) {
    for (const std::int64_t length : {0, 1, 2, 3, 17, 1000, 100003, 1 << 20, 5000001}) {
      const at::Tensor values = (at::arange(length, at::kLong) % 61 + world->rank()).to(type);
      sum(values);
      const at::Tensor expected =
          ((at::arange(length, at::kLong) % 61) * ranks_ + sum_of_ranks_).to(type);
      EXPECT_TRUE(at::equal(values, expected)) << type << " " << length;
    }
  }
}

TEST_F(MpiRanks, SumsAreTheSameBitsOnEveryRank) {
  at::manual_seed(static_cast<std::uint64_t>(world->rank()));
  const at::Tensor values = at::randn({1234567});
  sum(values);
  const std::string bytes(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
  const std::size_t hash = std::hash<std::string>{}(bytes);
  for (const std::size_t of_rank : world->gather(hash)) EXPECT_EQ(of_rank, hash);
}

TEST_F(MpiRanks, ManySumsInFlightFinishInOrder) {
  std::vector<at::Tensor> sums;
  std::vector<Communicator::Ticket> tickets;
  for (int i = 0; i < 50; ++i) {
    sums.push_back(at::full({1 + i * 997}, static_cast<float>(i + world->rank())));
    tickets.push_back(communicator_->all_reduce(sums.back()));
  }
  for (int i = 49; i >= 0; --i) {
    communicator_->wait(tickets[static_cast<std::size_t>(i)]);
    EXPECT_TRUE(at::equal(sums[static_cast<std::size_t>(i)],
                          at::full({1 + i * 997}, static_cast<float>(i * ranks_ + sum_of_ranks_))));
  }
}

// The other ranks start their part of the large sum only after the small one is done.
TEST_F(MpiRanks, ASumOfTheSecondLaneDoesNotWaitForTheFirst) {
  const auto lane = communicator_->second_lane("small sum");
  const at::Tensor large = at::ones({5000001}), small = at::ones({3});
  Communicator::Ticket ticket = 0;
  if (world->leads()) ticket = communicator_->all_reduce(large);
  lane->wait(lane->all_reduce(small));
  EXPECT_TRUE(at::equal(small, at::full({3}, static_cast<float>(ranks_))));
  if (!world->leads()) ticket = communicator_->all_reduce(large);
  communicator_->wait(ticket);
  EXPECT_TRUE(at::equal(large, at::full({5000001}, static_cast<float>(ranks_))));
}

TEST_F(MpiRanks, BroadcastsRank0sValues) {
  const at::Tensor values = at::full({4097}, static_cast<float>(world->rank() + 3));
  communicator_->broadcast(values);
  EXPECT_TRUE(at::equal(values, at::full({4097}, 3.0F)));
  const std::string text(static_cast<std::size_t>(world->rank()) * 100 + 5, 'x');
  EXPECT_EQ(world->broadcast(text), "xxxxx");
}

TEST_F(MpiRanks, SumsInTwoCallsFinishWithOthersInBetween) {
  const auto first = world->start_sum({1, static_cast<double>(world->rank())});
  const auto second = world->start_sum({2});
  EXPECT_EQ(world->sum({3}).front(), 3 * ranks_);
  EXPECT_EQ(world->finish(first), (std::vector<double>{1.0 * ranks_, sum_of_ranks_}));
  EXPECT_EQ(world->finish(second).front(), 2 * ranks_);
}

// A ring of parcels that are too large to be sent before they are received.
TEST_F(MpiRanks, ParcelsGoFromRankToRank) {
  MpiThread& mpi = *world->mpi();
  const int next = (world->rank() + 1) % ranks_, previous = (world->rank() + ranks_ - 1) % ranks_;
  const auto sent = std::make_shared<std::vector<int>>(3'000'001, world->rank());
  const auto received = std::make_shared<std::vector<int>>(sent->size(), -1);
  const std::size_t bytes = sent->size() * sizeof(int);
  const std::uint64_t sending =
      mpi.post({ParcelKind::kSend, "ring", next, 1, sent->data(), bytes, sent});
  EXPECT_EQ(world->sum({1}).front(), ranks_) << "sums do not wait for them";
  const std::uint64_t receiving =
      mpi.post({ParcelKind::kReceive, "ring", previous, 1, received->data(), bytes, received});
  mpi.wait(receiving);
  mpi.wait(sending);
  EXPECT_EQ(*received, std::vector<int>(sent->size(), previous));
}

TEST_F(MpiRanks, ParcelsOfAnyRankArriveInTheirOrder) {
  constexpr int kParcels = 5;
  MpiThread& mpi = *world->mpi();
  const auto text = std::make_shared<std::array<int, 2>>();
  const auto post = [&](ParcelKind kind, int rank) {
    Parcel parcel{kind, "text", rank, 2, text->data(), sizeof *text, text};
    parcel.is_soon = false;
    mpi.wait(mpi.post(parcel));
  };
  if (!world->leads()) {
    for (int i = 0; i < kParcels; ++i) {
      *text = {world->rank(), i};
      post(ParcelKind::kSend, 0);
    }
    return;
  }
  std::vector<int> next(static_cast<std::size_t>(ranks_));
  for (int i = 0; i < kParcels * (ranks_ - 1); ++i) {
    post(ParcelKind::kReceive, Parcel::kAnyRank);
    EXPECT_EQ((*text)[1], next[static_cast<std::size_t>((*text)[0])]++);
  }
}

TEST_F(MpiRanks, PlainValuesAreGatheredAndBroadcastInOneRound) {
  struct Pair {
    int rank;
    double half;
  };
  const std::uint64_t before = world->num_rounds();
  const auto all = world->gather(Pair{world->rank(), world->rank() / 2.0});
  EXPECT_EQ(world->num_rounds(), before + 1);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks_));
  for (int rank = 0; rank < ranks_; ++rank) {
    EXPECT_EQ(all[static_cast<std::size_t>(rank)].rank, rank);
    EXPECT_EQ(all[static_cast<std::size_t>(rank)].half, rank / 2.0);
  }
  EXPECT_EQ(world->broadcast(world->rank() + 5), 5);
  EXPECT_EQ(world->num_rounds(), before + 2);
}

TEST_F(MpiRanks, ListsOfDifferentLengthsAreGathered) {
  const auto rank = static_cast<std::size_t>(world->rank());
  const auto numbers = world->gather(std::vector<std::int64_t>(rank, world->rank()));
  const auto texts = world->gather(std::vector<std::string>(rank, std::string(rank, '\0')));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(numbers[i], std::vector<std::int64_t>(i, static_cast<std::int64_t>(i)));
    EXPECT_EQ(texts[i], std::vector<std::string>(i, std::string(i, '\0')));
  }
}

TEST_F(MpiRanks, WhatTheLeaderMakesReachesAll) {
  int num_calls = 0;
  const std::string text = world->from_leader([&] {
    ++num_calls;
    return std::string("found");
  });
  EXPECT_EQ(text, "found");
  EXPECT_EQ(num_calls, world->leads() ? 1 : 0);
  EXPECT_TRUE(world->from_leader([] { return true; }));
}

TEST_F(MpiRanks, TextsOfDifferentLengthsAreGathered) {
  const auto all = world->gather(std::string(static_cast<std::size_t>(world->rank()), 'a'));
  for (int rank = 0; rank < ranks_; ++rank)
    EXPECT_EQ(all[static_cast<std::size_t>(rank)].size(), static_cast<std::size_t>(rank));
}

TEST_F(MpiRanks, WhatOnlyRank0NeedsGoesThereAlone) {
  const auto rank = static_cast<std::size_t>(world->rank());
  const std::size_t mine = world->leads() ? 1 << 20 : 3 * rank;  // of the others, nothing is padded
  const auto texts = world->gather_on_rank_0(std::string(mine, static_cast<char>('a' + rank)));
  ASSERT_EQ(texts.size(), world->leads() ? static_cast<std::size_t>(ranks_) : 0U);
  if (!world->leads()) return;
  EXPECT_EQ(texts[0].size(), mine);
  for (std::size_t i = 1; i < texts.size(); ++i)
    EXPECT_EQ(texts[i], std::string(3 * i, static_cast<char>('a' + i)));
}

TEST_F(MpiRanks, TheLargestOfUnsignedNumbersIsTaken) {
  std::vector<std::uint64_t> values((1 << 20) + 3);
  values.back() = ~std::uint64_t{0} - static_cast<std::uint64_t>(world->rank());
  values[static_cast<std::size_t>(world->rank())] = 7;
  world->take_largest(values);
  EXPECT_EQ(values.back(), ~std::uint64_t{0});
  EXPECT_EQ(std::ranges::count(values, 7U), ranks_);
}

TEST_F(MpiRanks, TheLastRankToStartACollectiveElsewhereIsMissing) {
  MpiThread& mpi = *world->mpi();
  const bool late = world->rank() == ranks_ - 1;
  world->enter(late ? "loading" : "training");
  if (!late) {
    mpi.count_elsewhere();
    const std::uint64_t place = mpi.count_elsewhere();  // the late rank's barrier is its first
    const std::string expected = "Missing: " + world->name_of(ranks_ - 1) + ", loading.";
    std::string missing;
    for (int i = 0; i < 100 && missing != expected; ++i) {
      missing = missing_ranks({mpi.query_peers(), world->hosts(), world->rank(), place});
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_EQ(missing, expected);
  }
  world->barrier();
  if (late) mpi.count_elsewhere(), mpi.count_elsewhere();  // equal counts again
}

TEST_F(MpiRanks, SecondsOfACollectiveAreCounted) {
  const double before = *communicator_->all_reduce_seconds();
  sum(at::zeros({1 << 20}));
  EXPECT_GT(*communicator_->all_reduce_seconds(), before);
  const double after = *communicator_->all_reduce_seconds();
  world->barrier();
  EXPECT_EQ(*communicator_->all_reduce_seconds(), after);
}

TEST_F(MpiRanks, AnAgreedFailureIsKnownEverywhere) {
  const int guilty = ranks_ - 1;
  try {
    world->agree([&] {
      if (world->rank() == guilty) throw Error(ErrorCode::kInvalidDataset, "no such folder");
    });
    ADD_FAILURE() << "agree() returned";
  } catch (const Error& error) {
    EXPECT_EQ(world->rank(), guilty);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
  } catch (const FailedElsewhere& elsewhere) {
    EXPECT_NE(world->rank(), guilty);
    EXPECT_EQ(elsewhere.exit_code(), 1);
    EXPECT_NE(std::string(elsewhere.what()).find("rank " + std::to_string(guilty)),
              std::string::npos);
  }
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::Log log;
  kiln::World the_world;
  if (!kiln::join_ranks(argc, argv, 60, log, the_world)) return 2;
  kiln::world = &the_world;
  const int failed = RUN_ALL_TESTS();
  // The last test ended in an agreed failure, after which all ranks leave together.
  return the_world.leave(failed);
}
