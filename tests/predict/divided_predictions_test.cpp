#include "predict/divided_predictions.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln {
namespace {

// Images 64 to 67, of which 65 is bad and 67 damaged.
std::string packed(const HostBatch& images, const at::Tensor& logits) {
  return pack_batch({64,
                     images,
                     logits,
                     {{65, "file missing", /*damaged=*/false}, {67, "cut off", /*damaged=*/true}},
                     {11, 0, 13, 14}});
}

HostBatch three_of_four() {
  HostBatch images;
  images.samples = {64, 66, 67};
  images.count = 3;
  images.nominal = 4;
  return images;
}

TEST(DividedPredictions, ABatchArrivesAsItWasSent) {
  const at::Tensor logits = at::randn({3, 5});
  const SentBatch batch = unpack_batch(packed(three_of_four(), logits));
  EXPECT_EQ(batch.first, 64u);
  EXPECT_EQ(batch.images.nominal, 4);
  EXPECT_EQ(batch.images.count, 3);
  EXPECT_EQ(batch.images.samples, (std::vector<std::uint32_t>{64, 66, 67}));
  EXPECT_TRUE(batch.logits.equal(logits));
  EXPECT_EQ(batch.hashes, (std::vector<std::uint64_t>{11, 0, 13, 14}));
  ASSERT_EQ(batch.faults.size(), 2u);
  EXPECT_EQ(batch.faults[0].sample, 65u);
  EXPECT_EQ(batch.faults[0].fault, "file missing");
  EXPECT_FALSE(batch.faults[0].damaged);
  EXPECT_TRUE(batch.faults[1].damaged);
}

TEST(DividedPredictions, ABatchMayHaveNoGoodImage) {
  HostBatch images;
  images.nominal = 4;
  const SentBatch batch = unpack_batch(packed(images, {}));
  EXPECT_EQ(batch.images.count, 0);
  EXPECT_EQ(batch.images.nominal, 4);
  EXPECT_FALSE(batch.logits.defined());
  EXPECT_EQ(batch.faults.size(), 2u);
}

TEST(DividedPredictions, OtherBytesAreRefused) {
  const std::string whole = packed(three_of_four(), at::randn({3, 5}));
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(unpack_batch(whole.substr(0, length)), InternalError) << length;
  EXPECT_THROW(unpack_batch(whole + "x"), InternalError);
}

}  // namespace
}  // namespace kiln
