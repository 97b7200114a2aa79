// The pool without images: what it does when threads are short, and when readers start late.
#include "data/loader/loader_threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "data/loader/batch_loader.h"

namespace kiln {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kCanLimitMemory = false;
#elif defined(__has_feature)
constexpr bool kCanLimitMemory =
    !__has_feature(thread_sanitizer) && !__has_feature(address_sanitizer);
#else
constexpr bool kCanLimitMemory = true;
#endif

// This process may map so many bytes more, from now on: stacks of threads, too.
void limit_address_space(rlim_t more) {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t limit = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + more;
  const rlimit limits{limit, limit};
  ::setrlimit(RLIMIT_AS, &limits);
}

// Ends this process with 0 if a pool of so many threads is refused, with SIGALRM if that hangs.
[[noreturn]] void open_pool(ThreadPlan plan) {
  ::alarm(20);
  limit_address_space(40 << 20);
  try {
    const LoaderThreads pool(std::move(plan));
  } catch (const std::exception&) {
    ::_exit(0);
  }
  ::_exit(1);
}

TEST(LoaderThreadsDeathTest, LeavesWhenAThreadCannotBeMade) {
  if (!kCanLimitMemory) GTEST_SKIP() << "a sanitizer takes address space of its own";
  EXPECT_EXIT(open_pool({.num_decoders = 1000}), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(open_pool({.num_decoders = 1000, .read_ahead = 16}), testing::ExitedWithCode(0), "");
}

// Images that need no work. The first says that reading took long, so that readers start while
// decoders run.
class SlowReads : public LoaderThreads::BatchSource {
 public:
  SlowReads(LoaderThreads& pool, std::size_t count) : pool_(pool), count_(count) {}
  bool is_done() const { return num_loaded_ == count_; }
  bool has_been_read() const { return has_been_read_; }

 private:
  bool claim_image(std::size_t* position) override {
    if (next_ == count_) return false;
    *position = next_++;
    return true;
  }
  void load(std::size_t position, LoaderThreads::Decoder&) override {
    if (position == 1) pool_.add_read(/*seconds=*/10, /*bytes=*/0);
  }
  void loaded(std::size_t, std::exception_ptr) override { ++num_loaded_; }
  bool claim_read(std::size_t*) override { return !has_been_read_; }
  void read(std::size_t) override { has_been_read_ = true; }

  LoaderThreads& pool_;
  const std::size_t count_;
  std::size_t next_ = 0;
  std::atomic<std::size_t> num_loaded_ = 0;
  std::atomic<bool> has_been_read_ = false;
};

// For the thread sanitizer.
TEST(LoaderThreads, ReadersStartWhileDecodersRun) {
  for (int round = 0; round < 20; ++round) {
    LoaderThreads pool({.num_decoders = 4});
    SlowReads source(pool, 2000);
    pool.add(source);
    while (!source.is_done() || !source.has_been_read()) {
      pool.wake_readers();
      std::this_thread::yield();
    }
    EXPECT_EQ(pool.read_ahead(), LoaderThreads::kReadAhead);
    pool.remove(source);
  }
}

TEST(LoaderThreads, FollowTheNeedOfTheLastEpoch) {
  const auto after = [](double busy, double waited, int now) {
    return LoaderThreads::decoders_after(
        {.seconds = 10, .busy_seconds = busy, .waited_seconds = waited}, now, 12);
  };
  EXPECT_EQ(after(/*busy=*/60, /*waited=*/3, 8), 12) << "waited for: more, up to the most";
  EXPECT_EQ(after(30, 3, 4), 8);
  EXPECT_EQ(after(0.1, 0.1, 8), 1) << "hardly needed";
  EXPECT_EQ(after(12, 0.1, 8), 3) << "twice the need, rounded up";
  EXPECT_EQ(after(60, 0, 8), 8) << "never waited for: no more than now";
  EXPECT_EQ(after(0, 0, 1), 1);
}

// Loads that end when `wanted` of them are under way at once.
class LoadsTogether : public LoaderThreads::BatchSource {
 public:
  explicit LoadsTogether(int wanted) : wanted_(wanted) {}
  bool is_done() const { return done_; }

 private:
  bool claim_image(std::size_t* position) override {
    *position = 0;
    return !is_done();
  }
  void load(std::size_t, LoaderThreads::Decoder&) override {
    if (++now_ >= wanted_) done_ = true;
    while (!is_done()) std::this_thread::yield();
    --now_;
  }
  void loaded(std::size_t, std::exception_ptr) override {}
  bool claim_read(std::size_t*) override { return false; }
  void read(std::size_t) override {}

  const int wanted_;
  std::atomic<int> now_ = 0;
  std::atomic<bool> done_ = false;
};

TEST(LoaderThreads, GrowWhereBatchesWereWaitedForAndShrinkWhereTheyAreIdle) {
  LoaderThreads pool({.num_decoders = 1, .max_decoders = 3});
  for (const int wanted : {1, 2, 3}) {
    EXPECT_EQ(pool.num_decoders(), wanted);
    LoadsTogether source(wanted);
    pool.add(source);
    while (!source.is_done()) std::this_thread::yield();
    pool.remove(source, /*waited_seconds=*/100);
    pool.adapt();
  }
  EXPECT_EQ(pool.num_decoders(), 3) << "the most";
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  pool.adapt();
  EXPECT_EQ(pool.num_decoders(), 1);
  LoadsTogether again(1);
  pool.add(again);
  while (!again.is_done()) std::this_thread::yield();
  pool.remove(again);
}

TEST(LoaderThreads, AGivenNumberStays) {
  LoaderThreads pool({.num_decoders = 3});
  pool.adapt();
  EXPECT_EQ(pool.num_decoders(), 3);
}

TEST(ImageCache, TheLimitForEqualImagesHoldsThemAll) {
  for (const std::size_t bytes_each : {1UL, 150'528UL, 1'500'000UL, 5'000'000UL}) {
    constexpr std::size_t kItems = 20;
    ImageCache cache(CacheKind::kDecoded, kItems, ImageCache::bytes_for(kItems, bytes_each));
    const std::string image(bytes_each, 'x');
    for (std::size_t i = 0; i < kItems; ++i) cache.keep(i, image);
    EXPECT_EQ(cache.num_kept(), kItems) << bytes_each;
  }
}

// For the thread sanitizer too.
TEST(ImageCache, OfTwoThreadsThatKeepTheSameImageOneIsFirst) {
  constexpr std::size_t kItems = 20'000;
  ImageCache cache(CacheKind::kBytes, kItems, ImageCache::bytes_for(2 * kItems, 8));
  std::atomic<int> num_ready = 0;
  {
    std::vector<std::jthread> threads;
    for (const std::size_t size : {std::size_t{3}, std::size_t{8}})
      threads.emplace_back([&cache, &num_ready, bytes = std::string(size, 'x')] {
        for (++num_ready; num_ready < 2;) std::this_thread::yield();
        for (std::size_t i = 0; i < kItems; ++i) {
          cache.keep(i, bytes);
          const std::size_t found = cache.find(i).size();
          ASSERT_TRUE(found == 3 || found == 8) << found;
        }
      });
  }
  EXPECT_EQ(cache.num_kept(), kItems);
}

}  // namespace
}  // namespace kiln
