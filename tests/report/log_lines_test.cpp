#include "base/text.h"
#include "report/console.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kiln {
namespace {

// Numbers from a line of the designer's component; other programs parse this format.
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

TEST(Lines, EpochLineHasItsNumbers) {
  EpochRecord record;
  record.epoch = 1;
  record.average_images_per_second = 12.7395;
  record.train = {1.292102 * 12, 4, 12, 12};
  record.valid = {1.11136 * 6, 1, 6, 6};
  EXPECT_EQ(epoch_line(record),
            "Epoch 1,train_ips 12.74,train_loss 1.292102,train_error 0.666667,valid_loss 1.11136,"
            "top1 acc 0.16667,top5 acc 1.00000");
}

TEST(Lines, TheLiveLineFitsItsTerminal) {
  StepRecord record;
  record.epoch = 3;
  record.num_epochs = 20;
  record.step = 60;
  record.num_steps = 120;
  record.elapsed_seconds = 6;
  record.epoch_images_per_second = 512;
  record.seconds_left = 210;
  LiveLine live{.loss = 1.25, .top1 = 0.452, .columns = 120, .utf8 = false};
  EXPECT_EQ(progress_line(record, live),
            "epoch 3/20 [###########...........] 60/120  512 images/s  loss 1.2500  top-1 45.2 %  "
            "data wait 0 %  left 3 min 30 s");
  record.seconds_left.reset();
  EXPECT_TRUE(progress_line(record, live).ends_with("data wait 0 %")) << "in older records";
  record.seconds_left = 210;
  live.columns = 30;
  live.columns = 77;
  EXPECT_EQ(progress_line(record, live),
            "epoch 3/20 [######......] 60/120  512 images/s  top-1 45.2 %  left 3 min 30 s");
  EXPECT_EQ(progress_line(record, {.columns = 77}).find("top-1"), std::string::npos);
}

TEST(Lines, ScoringGoesByWhatThisJobDid) {
  const LiveLine live{.columns = 100};
  EXPECT_NE(scoring_line(60, 100, 10, live).find("  6 images/s  left 7 s"), std::string::npos);
  EXPECT_NE(scoring_line(60, 100, 10, live, 40).find(" 60/100 images  2 images/s  left 20 s"),
            std::string::npos);
  EXPECT_EQ(scoring_line(60, 0, 10, live, 40), "60 images  2 images/s");
}

TEST(Lines, TheTableOfALongRunKeepsFirstLastAndSavedEpochs) {
  std::vector<EpochRecord> epochs(90);
  for (std::size_t i = 0; i < epochs.size(); ++i) epochs[i].epoch = static_cast<int>(i) + 1;
  const std::vector<std::string> rows = epoch_table(epochs, 44);
  EXPECT_LE(rows.size(), 22U);
  EXPECT_NE(rows[1].find("    1 "), std::string::npos);
  EXPECT_NE(rows[rows.size() - 2].find("   90 "), std::string::npos);
  EXPECT_TRUE(rows.back().starts_with("* the epoch")) << "the star is explained";
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(),
                          [](const std::string& row) { return row.starts_with("*    44"); }),
            1);
}

TEST(Lines, TheTableOfAShortRunHasEveryEpoch) {
  const std::vector<EpochRecord> epochs(20);
  EXPECT_EQ(epoch_table(epochs, 3).size(), 21U);
}

TEST(Lines, NumbersAreReadable) {
  EXPECT_EQ(grouped(11699132), "11,699,132");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(duration_text(4.23), "4.2 s");
  EXPECT_EQ(duration_text(200), "3 min 20 s");
  EXPECT_EQ(duration_text(3720), "1 h 02 min");
  EXPECT_EQ(bytes_text(820'000'000), "820 MB");
}

}  // namespace
}  // namespace kiln
