// The options of checkpoints, and what a run that resumes may change.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/environment.h"
#include "cli/options.h"
#include "cli/parse.h"

namespace kiln {
namespace {

CheckpointConfig checkpoint(Words more) {
  more.insert(more.begin(), "--checkpoint-path=c");
  return parse_as<TrainConfig>(train(more)).checkpoint;
}

CheckpointEvery every(const std::string& text) {
  return checkpoint({"--checkpoint-every", text}).every;
}

TEST(Checkpoints, AreInTheLogFolderUntilAModelIsSaved) {
  const CheckpointConfig config = parse_as<TrainConfig>(train({"--log-path=l"})).checkpoint;
  EXPECT_EQ(config.path, "l/checkpoint");
  EXPECT_TRUE(config.is_temporary && config.is_unasked && !config.is_lasting());
  EXPECT_EQ(config.every.epochs, 0);
  EXPECT_EQ(config.every.steps, 0);
  EXPECT_EQ(config.every.seconds, 600);
  EXPECT_EQ(config.resume, ResumeChoice::kAuto);
}

TEST(Checkpoints, TakeTheirOptions) {
  const CheckpointConfig config = checkpoint({"--resume", "never"});
  EXPECT_EQ(config.path, "c");
  EXPECT_EQ(config.resume, ResumeChoice::kNever);
  EXPECT_EQ(checkpoint({"--resume", "require"}).resume, ResumeChoice::kRequire);
}

TEST(CheckpointEvery, CountsOnlyWhatItNames) {
  EXPECT_EQ(every("3steps").steps, 3);
  EXPECT_EQ(every("3steps").epochs, 0);
  EXPECT_EQ(every("3steps").seconds, 0);
  EXPECT_EQ(every("1step,2epochs").steps, 1);
  EXPECT_EQ(every("1step,2epochs").epochs, 2);
}

TEST(CheckpointEvery, ReadsTimes) {
  EXPECT_EQ(every("5s").seconds, 5);
  EXPECT_EQ(every("5min").seconds, 300);
  EXPECT_EQ(every("1epoch,2h").seconds, 7200);
  EXPECT_EQ(every("1000000000h").seconds, 3.6e12);
}

TEST(CheckpointEvery, RefusesWhatIsNoCountWithAUnit) {
  // The text, and what the message says of how to write it.
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "1epoch,10min"},
      {"often", "1epoch,10min"},
      {"3days", "epoch, step, s, min or h"},
      {"-1epoch", "1epoch,10min"},
      {"1epoch,", "1epoch,10min"},
      {"1epoch, 5s", "1epoch,10min"},
      {"5", "a unit"},
      {"0", "at least 1"},
      {"0.5h", "whole"},
      {"1.5epochs", "whole"},
      {"0steps", "at least 1"},
      {"00epochs", "at least 1"},
      {"1h,30min", "keep one"},
      {"1step,2steps", "keep one"},
  };
  for (const auto& [text, advice] : cases) {
    ErrorCode code{};
    const std::string message =
        fault(train({"--checkpoint-path=c", "--checkpoint-every=" + text}), &code);
    EXPECT_EQ(code, ErrorCode::kParameterParsing) << text;
    EXPECT_TRUE(message.starts_with("--checkpoint-every ")) << message;
    EXPECT_NE(message.find(advice), std::string::npos) << text << ": " << message;
  }
}

TEST(CheckpointEvery, RefusesCountsThatAreTooLarge) {
  for (const char* text : {"1000000001steps", "99999999999999999999s"}) {
    ErrorCode code{};
    fault(train({"--checkpoint-path=c", std::string("--checkpoint-every=") + text}), &code);
    EXPECT_EQ(code, ErrorCode::kLessThanOrEqualTo) << text;
  }
}

TEST(Checkpoints, OfARunAreInItsFolder) {
  const auto config = parse_as<TrainConfig>({"train", "--data-path=d", "--run-path=runs/one",
                                             "--trained-model-path=m", "--model-name=resnet18"});
  EXPECT_EQ(config.output.trained_model_path, "m");
  EXPECT_EQ(config.output.log_path, "runs/one/logs");
  EXPECT_EQ(config.checkpoint.path, "runs/one/checkpoints");
  EXPECT_TRUE(config.checkpoint.is_unasked && config.checkpoint.is_lasting());
  EXPECT_FALSE(checkpoint({}).is_unasked);
}

TEST(Checkpoints, NeedAFolderOnPlatforms) {
  const Environment platform(Environment::Values{{"AZUREML_RUN_ID", "run"}});
  for (const std::string option : {"--resume", "--checkpoint-every"}) {
    const std::string value = option == "--resume" ? "require" : "1epoch";
    const std::string message = fault(train({option, value}));
    EXPECT_TRUE(message.starts_with(option)) << message;
    EXPECT_NE(message.find("--checkpoint-path"), std::string::npos) << message;
  }
  EXPECT_EQ(fault(train({"--resume=never"})), "no fault");
}

TEST(Checkpoints, LieApartFromInputsAndTheModel) {
  for (const char* folder : {"u", "t/below", "v", "o", "o/checkpoints"}) {
    ErrorCode code{};
    const std::string message = fault(train({std::string("--checkpoint-path=") + folder}), &code);
    EXPECT_TRUE(message.starts_with("--checkpoint-path '")) << message;
    EXPECT_EQ(code, ErrorCode::kParameterParsing);
  }
  EXPECT_EQ(faults(train({"--checkpoint-path=."})).size(), 4u);  // it contains all of them
  EXPECT_EQ(fault(train({"--checkpoint-path=logs/checkpoints"})), "no fault");
}

Effect effect_of(const char* option) {
  return find_option(*find_command("train"), option)->effect.value();
}

TEST(Effects, AreGivenForEveryOptionOfTrain) {
  for (const Option& option : find_command("train")->options)
    EXPECT_TRUE(option.effect.has_value()) << option.name;
}

TEST(Effects, TellWhatARunThatResumesMayChange) {
  for (const char* name : {"epochs", "train-data-path", "checkpoint-path", "loader-threads",
                           "cache", "print-freq", "collective-timeout", "no-hashes", "explain"})
    EXPECT_EQ(effect_of(name), Effect::kFree) << name;
  for (const char* name : {"threads", "ranks", "device"})
    EXPECT_EQ(effect_of(name), Effect::kBits) << name;
  for (const char* name :
       {"learning-rate", "random-seed", "augment",         "image-size", "patience",
        "save",          "precision",   "sync-batch-norm", "lr-scaling", "shard-by",
        "class-weights", "sample",      "best-by",         "time-limit", "steps",
        "optimizer",     "momentum",    "weight-decay",    "no-decay",   "clip-norm",
        "ema",           "lr-schedule", "label-smoothing", "mixup",      "cutmix",
        "exchange"})
    EXPECT_EQ(effect_of(name), Effect::kResult) << name;
}

std::vector<Setting> changes(const Words& before, const Words& now) {
  return changed_options(parse_as<TrainConfig>(train(before)).settings.texts(),
                         parse_as<TrainConfig>(train(now)).settings.texts());
}

TEST(ChangedOptions, AreNamedWithBothValues) {
  const auto changed = changes({"--patience", "4"}, {"--learning-rate", "0.1", "--threads", "2"});
  ASSERT_EQ(changed.size(), 3u);
  EXPECT_EQ(changed[0].option->name, "learning-rate");
  EXPECT_EQ(changed[0].text, "0.1");
  EXPECT_EQ(changed[0].reason, "was 0.001 and is now 0.1");
  EXPECT_EQ(changed[0].option->effect, Effect::kResult);
  EXPECT_EQ(changed[1].option->name, "patience");
  EXPECT_EQ(changed[2].option->name, "threads");
  EXPECT_EQ(changed[2].option->effect, Effect::kBits);
}

TEST(ChangedOptions, IgnoreOtherSpellings) {
  EXPECT_TRUE(changes({"--augment=erase,flip,crop,trivial"}, {"--augment=strong"}).empty());
  EXPECT_EQ(changes({"--augment=crop"}, {"--augment=flip"}).size(), 1U);
  EXPECT_TRUE(changes({"--learning-rate=0.10", "--epochs=+7", "--augment=flip", "--lr-scaling=2",
                       "--sync-batch-norm", "--threads=AUTO"},
                      {"--learning-rate=.1", "--epochs=7", "--augment=FLIP", "--lr-scaling=2.0",
                       "--sync-batch-norm=1", "--threads=auto"})
                  .empty());
}

TEST(ChangedOptions, ReadTextsOfOtherPrograms) {
  const OptionTexts now = parse_as<TrainConfig>(train()).settings.texts();
  OptionTexts before = now;
  std::erase_if(before, [](const auto& text) { return text.first == "patience"; });
  before.emplace_back("from-the-future", "1");
  EXPECT_TRUE(changed_options(before, now).empty());
  for (auto& [name, text] : before)
    if (name == "learning-rate") text = "much";
  ASSERT_EQ(changed_options(before, now).size(), 1u);
}

}  // namespace
}  // namespace kiln
