#include "run/checkpoint/saved_run.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace kiln {
namespace {

SavedRank rank_of(int number) {
  SavedRank rank;
  rank.epoch = {{.steps = 7,
                 .statistics_averaged = true,
                 .images = 56,
                 .weighted_seconds = 1.0 / 3,
                 .weighted_rate = 1e9 / 7},
                {.loss_sum = 0.1 + number, .top1 = 3, .top5 = 5, .count = 8}};
  rank.epoch.spent.parts.backward = 0.7;
  rank.bad_train = {
      .samples = {4, 9}, .records = {{"training", "a.png", "cut", true}}, .num_bad = 1};
  rank.train = {60, {"cat", "dog"}, "0123456789abcdef"};
  return rank;
}

SavedRun two_ranks() {
  SavedRun run;
  run.time = 1.5e9 + 0.1;
  run.started = 1.4e9 + 1.0 / 3;
  run.finished = "patience";
  run.machine = {"kiln 1", "AVX2", "cpu", 2, 3};
  run.options = {{"epochs", "6"}, {"augment", "flip"}};
  run.options_in_effect = {{"epochs", "2"}, {"augment", "flip"}};
  run.head_rate = 1.0 / 3;
  run.image_size = {{48, 40}, true, ""};
  run.model = "resnet18";
  run.model_fingerprint = "resnet18 0";
  run.global_batch = 16;
  run.peak_learning_rate = 0.002;
  run.precision = "fp16";
  run.loss_scale = {.scale = 0.5, .steps_since_overflow = 3, .skipped_steps = 2};
  run.progress.epochs_done = 2;
  run.progress.best = {.epoch = 1,
                       .valid = {.loss_sum = 2.5, .top1 = 6, .top5 = 9, .count = 12},
                       .calibration = {1.0 / 3, {{0.25, 7, 5}, {1 - 1e-7, 5, 1}}}};
  run.progress.early_stopping = {.patience = 3, .strikes = 1, .previous_loss = 0.3};
  run.ranks = {rank_of(0), rank_of(1)};
  return run;
}

std::string text_of(const SavedRun& run) {
  std::vector<std::string> ranks;
  for (const SavedRank& rank : run.ranks) ranks.push_back(format_rank(rank));
  return format_saved_run(run, ranks);
}

TEST(SavedRun, ReadsWhatItWrote) {
  const SavedRun run = two_ranks(), again = parse_saved_run(text_of(run));
  EXPECT_EQ(text_of(again), text_of(run));
  EXPECT_EQ(again.started, run.started);
  EXPECT_EQ(again.options, run.options);
  EXPECT_EQ(again.options_in_effect, run.options_in_effect);
  EXPECT_EQ(again.head_rate, 1.0 / 3);
  EXPECT_EQ(again.precision, "fp16");
  ASSERT_TRUE(again.image_size.has_value());
  EXPECT_EQ(again.image_size->size, (ImageSize{48, 40}));
  EXPECT_TRUE(again.image_size->is_stored);
  ASSERT_TRUE(again.loss_scale.has_value());
  EXPECT_EQ(again.loss_scale->scale, 0.5);
  EXPECT_EQ(again.loss_scale->steps_since_overflow, 3);
  EXPECT_EQ(again.loss_scale->skipped_steps, 2);
  EXPECT_EQ(again.progress.best.valid.count, 12);
  EXPECT_EQ(again.progress.best.calibration, run.progress.best.calibration);
  EXPECT_EQ(again.progress.early_stopping.previous_loss, 0.3);
  ASSERT_EQ(again.ranks.size(), 2U);
  EXPECT_EQ(again.ranks[1].epoch.totals.loss_sum, 1.1);
  EXPECT_EQ(again.ranks[1].epoch.weighted_rate, 1e9 / 7);
  EXPECT_EQ(again.ranks[1].epoch.spent.parts.backward, 0.7);
  EXPECT_TRUE(again.ranks[1].epoch.statistics_averaged);
  EXPECT_EQ(again.ranks[0].bad_train.samples, run.ranks[0].bad_train.samples);
  EXPECT_EQ(again.ranks[0].bad_train.records[0].fault, "cut");
  EXPECT_EQ(again.ranks[0].train.hash, run.ranks[0].train.hash);
}

TEST(SavedRun, ReadsWhatAnEarlierVersionWrote) {
  std::string text = text_of(two_ranks());
  for (const std::string name : {"options_in_effect", "head_rate", "image_size"})
    text.replace(text.find(name), name.size(), "unknown_" + name);
  const SavedRun again = parse_saved_run(text);
  EXPECT_EQ(again.options, two_ranks().options);
  EXPECT_TRUE(again.options_in_effect.empty());
  EXPECT_EQ(again.head_rate, 0);
  EXPECT_FALSE(again.image_size.has_value());
}

TEST(SavedRun, KeepsWhatATimeLimitHasDecided) {
  SavedRun run = two_ranks();
  EXPECT_FALSE(parse_saved_run(text_of(run)).progress.time_plan.has_value());
  run.progress.time_plan = {
      .epochs = 7, .epoch_seconds = 1.5, .end_seconds = 0.25, .is_over = true, .steps = 40};
  const auto again = parse_saved_run(text_of(run)).progress.time_plan;
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->epochs, 7);
  EXPECT_EQ(again->epoch_seconds, 1.5);
  EXPECT_EQ(again->end_seconds, 0.25);
  EXPECT_TRUE(again->is_over);
  EXPECT_EQ(again->steps, 40);
}

TEST(SavedRun, KeepsALossThatIsNotThereYet) {
  SavedRun run = two_ranks();
  run.progress.early_stopping.previous_loss = std::numeric_limits<double>::infinity();
  EXPECT_EQ(parse_saved_run(text_of(run)).progress.early_stopping.previous_loss,
            std::numeric_limits<double>::infinity());
}

TEST(SavedRun, RefusesOtherTexts) {
  for (const char* text : {"", "{}", "[]", R"({"ranks": []})", R"({"ranks": [{}, {}]})",
                           R"({"ranks": 1})", R"({"machine": {"num_ranks": "x"}, "ranks": [{}]})"})
    EXPECT_THROW(parse_saved_run(text), Error) << text;
  SavedRun run = two_ranks();
  for (const ImageSize size : {ImageSize{0, 40}, ImageSize{1 << 20, 1 << 20}}) {
    run.image_size->size = size;
    EXPECT_THROW(parse_saved_run(text_of(run)), Error) << text_of(size);
  }
}

TEST(DatasetFingerprint, TellsNamesLabelsAndClassesApart) {
  const auto print = [](const std::string& name, int label, const std::string& name_of_class) {
    Dataset set;
    set.classes = {name_of_class};
    set.samples.push_back({.file_name = name, .label = label, .size = {}});
    return fingerprint_of(set).hash;
  };
  EXPECT_EQ(print("a", 0, "cat"), print("a", 0, "cat"));
  EXPECT_NE(print("a", 0, "cat"), print("b", 0, "cat"));
  EXPECT_NE(print("a", 0, "cat"), print("a", 1, "cat"));
  EXPECT_NE(print("a", 0, "cat"), print("a", 0, "dog"));
}

}  // namespace
}  // namespace kiln
