#include "run/prepare/memory.h"

#include <gtest/gtest.h>

#include <tuple>

#include <new>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/system.h"
#include "model/catalogue.h"
#include "model/image_model.h"

namespace kiln {
namespace {

Kept kept_by(const std::string& network, bool memory_efficient = false) {
  return make_image_model(
             {.model_name = network, .memory_efficient = memory_efficient, .is_initialized = false})
      ->kept();
}

StepNeed need_of(int side, int batch_size, double free) {
  return {.kept = kept_by("resnet18"),
          .step = {.height = side, .width = side, .batch_size = batch_size},
          .free = free,
          .size_option = "--image-size"};
}

TEST(StepFits, OnlyWhatCannotFitIsRefused) {
  const double least = least_step_bytes(kept_by("resnet18"), need_of(224, 16, 0).step);
  EXPECT_EQ(step_fault(need_of(224, 16, least)), "");
  EXPECT_NE(step_fault(need_of(224, 16, least - 1)), "");
  EXPECT_EQ(step_warning(need_of(224, 16, least * kMostToLeast)), "");
  EXPECT_NE(step_warning(need_of(224, 16, least * kMostToLeast - 1)), "");
}

TEST(StepFits, TheAdviceFits) {
  const std::string fault = step_fault(need_of(1512, 16, 4e9));
  EXPECT_NE(fault.find("--batch-size 1 or less, or --image-size 512 or less"), std::string::npos)
      << fault;
  EXPECT_EQ(step_warning(need_of(1512, 1, 4e9)), "");
  EXPECT_EQ(step_warning(need_of(512, 16, 4e9)), "");
}

TEST(StepFits, AdviceThatCannotHelpIsNotGiven) {
  const std::string one = step_fault(need_of(13000, 1, 20e9));
  EXPECT_EQ(one.find("--batch-size"), std::string::npos) << one;
  EXPECT_NE(one.find("--image-size"), std::string::npos) << one;
  StepNeed small = need_of(32, 64, 1e6);
  small.least_batch = 2;
  EXPECT_EQ(step_fault(small).find("--image-size"), std::string::npos) << step_fault(small);
}

// What training takes for each pixel of an image, measured as the growth of the peak memory from
// batches of 8 to 32 (224 pixels: 4 to 16) on a CPU: bytes.
struct Measured {
  const char* network;
  int side;
  double bytes;
};
constexpr Measured kMeasured[] = {
    {"resnet18", 64, 750},          {"resnet18", 128, 724},        {"resnet18", 224, 744},
    {"resnet50", 64, 2695},         {"resnet50", 128, 2550},       {"resnet50", 224, 2652},
    {"densenet121", 64, 3284},      {"densenet121", 128, 3129},    {"densenet121", 224, 3003},
    {"wide_resnet50_2", 128, 3644}, {"resnext50_32x4d", 128, 3734}};

TEST(StepMemory, TheLeastIsLessThanWhatWasMeasuredAndNotMuchLess) {
  for (const auto& [network, side, bytes] : kMeasured) {
    const double least =
        least_step_bytes(kept_by(network), {.height = side, .width = side, .batch_size = 4});
    const double measured = bytes * side * side * 4;
    EXPECT_LT(least, measured) << network << " " << side;
    EXPECT_GT(least * kMostToLeast, measured) << network << " " << side;
  }
}

TEST(StepMemory, EveryNetworkHasAnEstimate) {
  const StepSize step{.height = 100, .width = 100};
  StepSize forward = step, half = step;
  forward.is_backward = false;
  half.is_half = true;
  for (const std::string& network : network_names()) {
    const Kept kept = kept_by(network);
    const double least = least_step_bytes(kept, step);
    EXPECT_LT(least_step_bytes(kept, forward), least / 4) << network;
    EXPECT_LT(least_step_bytes(kept, half), least * 0.6) << network;
  }
  EXPECT_LT(least_step_bytes(kept_by("densenet121", /*memory_efficient=*/true), step),
            least_step_bytes(kept_by("densenet121"), step) / 2);
}

// Of each pixel of an image that pooling leaves, an index of 8 bytes for each of 64 channels.
TEST(StepMemory, IndicesOfPoolingStayWideInHalfPrecision) {
  const StepSize half{.height = 100, .width = 100, .is_half = true};
  for (const char* network : {"resnet50", "densenet121"}) {
    Kept without = kept_by(network);
    EXPECT_DOUBLE_EQ(without.indices, 64.0 / 16) << network;
    without.indices = 0;
    EXPECT_DOUBLE_EQ(least_step_bytes(kept_by(network), half) - least_step_bytes(without, half),
                     32 * 100 * 100)
        << network;
  }
  EXPECT_EQ(kept_by("vit_s_16").indices, 0);
}

constexpr long long kMiB = 1 << 20;

// Each image of the batch takes 10 MiB, the program 1000; 200 are reserved.
MemoryUse use_of_100_images(long long available) {
  return {
      .before = 1000 * kMiB, .peak = 2000 * kMiB, .available = available * kMiB, .batch_size = 100};
}

TEST(AutomaticBatch, IsWhatImagesAndMemoryAllow) {
  for (const auto& [images, bytes, batch] : {std::tuple{48.0, 0.0, 16},
                                             {1e9, 0.0, 16},
                                             {0.0, 1e9, 16},
                                             {32.0, 1e9, 16},
                                             {31.0, 1e9, 14},
                                             {13.0, 0.0, 6},
                                             {12.0, 0.0, 6},
                                             {5.0, 0.0, 2},
                                             {3.0, 0.0, 2},
                                             {0.5, 0.0, 2},
                                             {3199.0, 1e9, 16},
                                             {3200.0, 1e9, 32},
                                             {1e9, 1e9, 256},
                                             {1e9, 1280.0, 128},
                                             {1e9, 1279.0, 64},
                                             {1e9, 1.0, 16}})
    EXPECT_EQ(automatic_batch(images, /*image_bytes=*/10, bytes), batch) << images << " " << bytes;
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
