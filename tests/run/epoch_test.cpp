#include "run/epoch.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace kiln {
namespace {

EpochRecord epoch_of(std::int64_t train, std::int64_t valid, double valid_loss) {
  EpochRecord record;
  record.epoch = 1;
  record.train.count = train;
  record.valid.count = valid;
  record.valid.loss_sum = valid_loss;
  return record;
}

ErrorCode code_of(const EpochRecord& record) {
  try {
    check_epoch(record);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kUserError;
}

TEST(CheckEpoch, TakesAnEpochThatOneCanGoOnWith) {
  EXPECT_NO_THROW(check_epoch(epoch_of(8, 4, 1.5)));
}

TEST(CheckEpoch, RefusesDatasetsWithoutAGoodImage) {
  EXPECT_EQ(code_of(epoch_of(0, 4, 1)), ErrorCode::kInvalidDataset);
  EXPECT_EQ(code_of(epoch_of(8, 0, 1)), ErrorCode::kInvalidDataset);
}

TEST(CheckEpoch, RefusesALossThatIsNotFinite) {
  EXPECT_EQ(code_of(epoch_of(8, 4, std::numeric_limits<double>::infinity())),
            ErrorCode::kFailedToCompleteOperation);
  EXPECT_EQ(code_of(epoch_of(8, 4, std::numeric_limits<double>::quiet_NaN())),
            ErrorCode::kFailedToCompleteOperation);
}

}  // namespace
}  // namespace kiln
