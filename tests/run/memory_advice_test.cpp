#include "run/prepare/memory_advice.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "base/error.h"
#include "base/system.h"

namespace kiln {
namespace {

constexpr long long kMiB = 1 << 20;

// Each image of the batch takes 10 MiB, the program 1000; 200 are reserved.
MemoryUse use_of_100_images(long long available) {
  return {
      .before = 1000 * kMiB, .peak = 2000 * kMiB, .available = available * kMiB, .batch_size = 100};
}

TEST(MemoryAdvice, NothingIsSaidWhereATenthOfThePeakIsLeft) {
  EXPECT_EQ(memory_needed(use_of_100_images(0)), 200 * kMiB);
  EXPECT_EQ(memory_warning(use_of_100_images(200)), "");
  EXPECT_EQ(batch_that_fits(use_of_100_images(200)), 100);
  EXPECT_NE(memory_warning(use_of_100_images(199)), "");
}

TEST(MemoryAdvice, TheBatchThatFitsLeavesTheReserve) {
  const MemoryUse use = use_of_100_images(95);
  const int fits = batch_that_fits(use);
  EXPECT_EQ(fits, 90) << "105 MiB are missing; 10 images free 100 and 10 of the reserve";
  EXPECT_NE(memory_warning(use).find("--batch-size 90 "), std::string::npos) << memory_warning(use);
  MemoryUse smaller = use;
  smaller.peak -= 100 * kMiB;
  smaller.available += 100 * kMiB;
  EXPECT_EQ(memory_warning(smaller), "");
}

TEST(MemoryAdvice, RanksShareTheHostAndCachesAreToCome) {
  MemoryUse use = use_of_100_images(400);
  use.ranks_on_host = 2;
  EXPECT_EQ(memory_warning(use), "");
  use.ranks_on_host = 4;
  EXPECT_EQ(batch_that_fits(use), 90) << "100 MiB are missing";
  use.ranks_on_host = 2;
  use.to_come = 105 * kMiB;
  EXPECT_EQ(batch_that_fits(use), 90);
}

TEST(MemoryAdvice, WhereNoBatchHelpsOtherOptionsAreNamed) {
  MemoryUse use = use_of_100_images(0);
  use.to_come = 2000 * kMiB;
  EXPECT_EQ(batch_that_fits(use), 0);
  EXPECT_NE(memory_warning(use).find("--loader-threads"), std::string::npos);
  EXPECT_EQ(memory_warning(use).find("--batch-size"), std::string::npos);
  use = use_of_100_images(0);
  use.on_gpu = true;
  EXPECT_EQ(batch_that_fits(use), 0) << "its batches are elsewhere";
  EXPECT_EQ(memory_warning(use).find("--batch-size"), std::string::npos);
}

TEST(MemoryWatch, LooksAfterTheFirstStep) {
  MemoryWatch roomy({.batch_size = 8});
  EXPECT_EQ(roomy.after_step(), "");
  MemoryWatch tight({.to_come = available_memory_bytes() * 2, .batch_size = 8});
  EXPECT_NE(tight.after_step(), "");
  EXPECT_EQ(tight.after_step(), "") << "it is told once";
}

std::string message_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModuleOutOfMemory);
    return error.message();
  } catch (const std::exception& other) {
    return other.what();
  }
}

TEST(MemoryWatch, WhereMemoryRanOutItSaysWhichBatchToTry) {
  const MemoryWatch watch({.batch_size = 64});
  const auto told = [&](const auto& failure) {
    return message_of(watch.advised(std::make_exception_ptr(failure)));
  };
  EXPECT_NE(told(std::bad_alloc()).find("try 32."), std::string::npos);
  const std::string gpu =
      told(std::runtime_error("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a …"));
  EXPECT_NE(gpu.find("GPU 1"), gpu.npos) << gpu;
  EXPECT_NE(gpu.find("2.00 GiB"), gpu.npos) << gpu;
  EXPECT_NE(gpu.find("try 32."), gpu.npos) << gpu;
  EXPECT_EQ(told(std::runtime_error("another")), "another");
}

TEST(MemoryWatch, OfOneImageNothingIsLess) {
  const MemoryWatch watch({.batch_size = 1});
  const std::string text = message_of(watch.advised(std::make_exception_ptr(std::bad_alloc())));
  EXPECT_EQ(text.find("try "), std::string::npos) << text;
}

}  // namespace
}  // namespace kiln
