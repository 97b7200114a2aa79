#include "report/lines.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

// Numbers of a line that the re-implemented component wrote; other programs parse this form.
TEST(Lines, IterationLineKeepsNamesSeparatorsAndDigits) {
  StepRecord record;
  record.epoch = 1;
  record.num_epochs = 3;
  record.step = 2;
  record.num_steps = 2;
  record.batch_seconds = 1.467;
  record.epoch_seconds = 0.874;
  record.batch_images_per_second = 4.0899;
  record.epoch_images_per_second = 12.7395;
  record.batch = {1.3858 * 6, 0, 6, 6};
  record.so_far = {1.2921 * 12, 3, 12, 12};
  EXPECT_EQ(iteration_line(record),
            "Epoch: [1/3]\tIter: [2/2]\tAvg_Time_Batch/Avg_Time_Epoch(s): 1.467/0.874\t"
            "Avg_Ips_Batch/Avg_Ips_Epoch(img/s): 4.0899/12.7395\t"
            "Avg_Loss_Batch/Avg_Loss_Epoch: 1.3858/1.2921\tAvg_Error_Batch/Avg_Error_Epoch: "
            "1.0000/0.7500");
}

TEST(Lines, EpochLine) {
  EpochRecord record;
  record.epoch = 1;
  record.average_images_per_second = 12.7395;
  record.train = {1.292102 * 12, 4, 12, 12};
  record.valid = {1.11136 * 6, 1, 6, 6};
  EXPECT_EQ(epoch_line(record),
            "Epoch 1,train_ips 12.74,train_loss 1.292102,train_error 0.666667,valid_loss 1.11136,"
            "top1 acc 0.16667,top5 acc 1.00000");
}

TEST(Lines, NumbersForPeople) {
  EXPECT_EQ(grouped(11699132), "11,699,132");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(duration_text(4.23), "4.2 s");
  EXPECT_EQ(duration_text(200), "3 min 20 s");
  EXPECT_EQ(duration_text(3720), "1 h 02 min");
  EXPECT_EQ(bytes_text(820'000'000), "820 MB");
}

}  // namespace
}  // namespace kiln
