#include "parallel/processors/sleeping_team.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "base/system.h"

namespace kiln {
namespace {

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// What a team of two uses while it has nothing to do, in twenty pauses.
double seconds_of_waiting() {
  const double begin = processor_seconds();
  for (int i = 0; i < 20; ++i) {
    int count = 0;
#pragma omp parallel num_threads(2)
    {
#pragma omp atomic
      ++count;
    }
    EXPECT_EQ(count, 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return processor_seconds() - begin;
}

TEST(SleepingTeam, OthersSleepToo) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr)
    GTEST_SKIP() << "the environment says how threads wait";
  const double spinning = seconds_of_waiting();
  {
    const SleepingTeam team(usable_cpus());
    EXPECT_LT(seconds_of_waiting(), spinning / 4);
  }
  EXPECT_GT(seconds_of_waiting(), spinning / 4);
}

TEST(SleepingTeam, EndsAtOnce) {
  for (int i = 0; i < 50; ++i) const SleepingTeam team(3);
}

}  // namespace
}  // namespace kiln
