// Run by mpirun with several ranks: the last one fails, and announces it before its communicator is
// destroyed.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "parallel/gradients/communicator.h"
#include "parallel/rank_main.h"
#include "parallel/ranks/world.h"

namespace kiln {
namespace {

World* world = nullptr;

// Until all other ranks have started the collective with this index.
void wait_for_the_others(std::uint64_t place) {
  const auto have_come = [&] {
    const std::vector<PeerStatus> peers = world->mpi()->query_peers();
    for (int rank = 0; rank < world->size(); ++rank)
      if (const PeerStatus& peer = peers[static_cast<std::size_t>(rank)];
          rank != world->rank() && peer.is_watched && peer.started < place)
        return false;
    return true;
  };
  for (int i = 0; i < 500 && !have_come(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST(AnnouncedFailure, EndsTheWaitsOfTheOthersWhileTheCommunicatorExists) {
  const auto communicator = make_mpi_communicator(*world->mpi());
  const at::Tensor values = at::ones({3});
  if (world->rank() == world->size() - 1) {
    wait_for_the_others(world->mpi()->count_elsewhere());
    EXPECT_TRUE(world->announce_failure("disk full", 3));
    const Stopwatch watch;
    EXPECT_TRUE(world->announce_failure("disk full", 3));
    EXPECT_LT(watch.seconds(), 0.5);                       // the first call waits so long
    communicator->wait(communicator->all_reduce(values));  // so that MPI can be finalized
    return;
  }
  try {
    communicator->wait(communicator->all_reduce(values));
    ADD_FAILURE() << "the sum came though a rank had failed";
  } catch (const FailedElsewhere& elsewhere) {
    EXPECT_EQ(elsewhere.exit_code(), 3);
    EXPECT_NE(std::string(elsewhere.what()).find(world->name_of(world->size() - 1)),
              std::string::npos);
    EXPECT_NE(std::string(elsewhere.what()).find("disk full"), std::string::npos);
  }
  EXPECT_FALSE(world->announce_failure("something that follows from it", 3));
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::Log log;
  kiln::World the_world;
  if (!kiln::join_ranks(argc, argv, 60, log, the_world)) return 2;
  kiln::world = &the_world;
  return RUN_ALL_TESTS();
}
