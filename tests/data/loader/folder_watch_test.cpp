// A data folder that is away for a while, as with a network mount: images are waited for, not bad.
#include "data/loader/loader_threads.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "base/system.h"
#include "data/loader/batch_loader.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int kImages = 20;
constexpr milliseconds kLong = std::chrono::minutes(10), kShort(30), kBetweenLooks(5);

class FolderWatchTest : public testing::Test {
 protected:
  FolderWatchTest() {
    set_.root = root_;
    for (int i = 0; i < kImages; ++i) {
      const std::string name = std::to_string(i) + ".ppm";
      scratch_.put("data/" + name, "P6 8 8 255\n" + std::string(8 * 8 * 3, 'x'));
      set_.samples.push_back({.file_name = name, .label = 0, .id = i, .size = {}});
    }
  }

  ThreadPlan pool(milliseconds wait, int read_ahead = 0) {
    return {.num_decoders = 3,
            .read_ahead = read_ahead,
            .outage = {.wait = wait, .between_looks = kBetweenLooks},
            .warn = [this](const std::string&) { ++num_told_; }};
  }

  BatchPlan plan() const {
    BatchPlan plan;
    plan.order.resize(kImages);
    std::iota(plan.order.begin(), plan.order.end(), 0U);
    plan.batch_size = 5;
    plan.pixels.output = {8, 8};
    return plan;
  }

  // How many of the images of a pass were good.
  int good_images(LoaderThreads& pool) {
    const auto loader = load_batches(set_, pool, plan());
    return rest_of(*loader);
  }
  static int rest_of(BatchLoader& loader) {
    int count = 0;
    while (const HostBatch* batch = loader.next()) count += batch->count;
    return count;
  }

  void take_away() const { fs::rename(root_, away_); }
  void bring_back() const { fs::rename(away_, root_); }
  void wait_until_told(int count) const {
    while (num_told_ < count) std::this_thread::sleep_for(milliseconds(1));
  }

  ScratchFolder scratch_;
  const fs::path root_ = scratch_ / "data", away_ = scratch_ / "away";
  Dataset set_;
  std::atomic<int> num_told_ = 0;
};

TEST_F(FolderWatchTest, AllImagesAreGoodOnceTheFolderIsBack) {
  for (const int read_ahead : {0, 7}) {
    num_told_ = 0;
    LoaderThreads threads(pool(kLong, read_ahead));
    take_away();
    const auto loader = load_batches(set_, threads, plan());
    wait_until_told(1);
    bring_back();
    EXPECT_EQ(rest_of(*loader), kImages);
    EXPECT_TRUE(loader->take_faults().empty());
    EXPECT_EQ(num_told_, 2) << "that it is away, and that it is back";
  }
}

TEST_F(FolderWatchTest, AnOutageIsWaitedForOnce) {
  LoaderThreads threads(pool(kShort));
  take_away();
  const Stopwatch watch;
  EXPECT_EQ(good_images(threads), 0);
  EXPECT_GE(watch.seconds(), std::chrono::duration<double>(kShort).count());
  EXPECT_EQ(num_told_, 2) << "that it is away, and that it is given up";
  EXPECT_EQ(good_images(threads), 0);
  EXPECT_EQ(num_told_, 2) << "it is the same outage";
  bring_back();
  std::this_thread::sleep_for(2 * kBetweenLooks);
  EXPECT_EQ(good_images(threads), kImages);
  EXPECT_EQ(num_told_, 3) << "it is back";
  take_away();
  EXPECT_EQ(good_images(threads), 0);
  EXPECT_EQ(num_told_, 5) << "the next outage is waited for and told again";
}

TEST_F(FolderWatchTest, AMissingFileIsBadAtOnce) {
  LoaderThreads threads(pool(kLong));
  fs::remove(root_ / "3.ppm");
  const auto loader = load_batches(set_, threads, plan());
  EXPECT_EQ(rest_of(*loader), kImages - 1);
  EXPECT_EQ(loader->take_faults().size(), 1U);
  EXPECT_FALSE(loader->was_cut_short());
  EXPECT_EQ(num_told_, 0);
}

// Opening a socket is ENXIO, one of the errors of a device that is gone.
TEST_F(FolderWatchTest, ImagesThatCannotBeReadAreAnOutageThoughTheirFolderAnswers) {
  const fs::path link = scratch_ / "link", next = scratch_ / "next";
  const auto mount = [&](const fs::path& folder) {
    fs::create_directory_symlink(folder, next);
    fs::rename(next, link);
  };
  fs::create_directory(away_);
  for (int i = 0; i < kImages; ++i)
    ASSERT_EQ(::mknod((away_ / (std::to_string(i) + ".ppm")).c_str(), S_IFSOCK | 0666, 0), 0);
  mount(away_);
  set_.root = link;
  LoaderThreads threads(pool(kLong));
  const auto loader = load_batches(set_, threads, plan());
  wait_until_told(1);
  mount(root_);
  EXPECT_EQ(rest_of(*loader), kImages);
  EXPECT_EQ(num_told_, 2) << "that it is away, and that it is back";
}

TEST_F(FolderWatchTest, OneImageThatCannotBeReadIsBadAtOnce) {
  LoaderThreads threads(pool(kLong));
  fs::remove(root_ / "3.ppm");
  ASSERT_EQ(::mknod((root_ / "3.ppm").c_str(), S_IFSOCK | 0666, 0), 0);
  EXPECT_EQ(good_images(threads), kImages - 1);
  EXPECT_EQ(num_told_, 0);
}

TEST_F(FolderWatchTest, AClosedLoaderDoesNotWait) {
  LoaderThreads threads(pool(kLong));
  take_away();
  { const auto loader = load_batches(set_, threads, plan()); }
  {
    const auto loader = load_batches(set_, threads, plan());
    wait_until_told(1);
  }
  EXPECT_EQ(num_told_, 1);
}

TEST_F(FolderWatchTest, AStopSignalEndsTheWait) {
  const auto stop_while_waiting = [this] {
    ::alarm(20);
    install_stop_signals();
    LoaderThreads threads(pool(kLong));
    take_away();
    const auto loader = load_batches(set_, threads, plan());
    wait_until_told(1);
    std::raise(SIGTERM);
    const bool is_right = rest_of(*loader) == 0 && loader->take_faults().empty();
    ::_exit(is_right && loader->was_cut_short() ? 0 : 1);
  };
  EXPECT_EXIT(stop_while_waiting(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kiln
