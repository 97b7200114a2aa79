// What every option of a command is set to, and where its value comes from.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

struct Option;
struct CommandInfo;

// Every option with its text, in table order.
using OptionTexts = std::vector<std::pair<std::string, std::string>>;

// Where a value comes from, and who sets it. A later one of these replaces an earlier one, but for
// what a run finds out, which replaces any.
enum class Origin {
  kDefault,     // the row's, or what stands for it beside the other options: Given::imply()
  kRecipe,      // --recipe sets it; or --run-path: Given::imply()
  kLength,      // --recipe sets it by the length of the run, once that is known: with_length()
  kAuto,        // the run has found it out: found(), found_for_train()
  kCheckpoint,  // of the run that is resumed: with_checkpoint()
  kFile,        // in the --config file: config_file.cpp
  kGiven,       // in the command line, arguments.cpp; or what follows from a bare path there
};
inline constexpr std::array<std::string_view, 7> kOriginNames = {
    "default", "recipe", "length of the run", "auto", "checkpoint", "file", "given"};

struct Setting {
  const Option* option = nullptr;
  std::string text = {};  // empty: none; or that no word says what the run has found
  Origin origin = Origin::kDefault;
  std::string reason = {};                                      // a few words; may be empty
  bool is_given() const { return origin != Origin::kDefault; }  // by whatever else
  bool is_default() const;                                      // whatever its origin
  // Whether the run has found it, with a reason, in place of what it was asked for.
  bool is_found() const {
    return origin == Origin::kAuto || (origin == Origin::kCheckpoint && !reason.empty());
  }
};

class Settings {
 public:
  Settings() = default;
  explicit Settings(const CommandInfo& command);  // the defaults

  const Setting& of(std::string_view name) const;
  const std::string& text(std::string_view name) const { return of(name).text; }
  bool is_given(std::string_view name) const { return of(name).is_given(); }

  // Sets an option, unless its value has a later origin.
  Settings with(std::string_view name, std::string text, Origin origin,
                std::string reason = {}) const;
  // What a run has found in place of what it was asked for, whatever the origin of that was.
  Settings found(std::string_view name, std::string text, std::string reason) const;
  Settings replaced(Setting setting) const;  // in any case

  OptionTexts texts() const;
  auto begin() const { return settings_.begin(); }
  auto end() const { return settings_.end(); }

 private:
  std::vector<Setting> settings_;  // of all options, in table order
};

// The names of options that the parts of a run ask for.
namespace options {
inline constexpr std::string_view kAugment = "augment", kAuto = "auto", kBatchSize = "batch-size",
                                  kCheckpointPath = "checkpoint-path", kConfig = "config",
                                  kDevice = "device", kEpochs = "epochs", kFit = "fit",
                                  kFreeze = "freeze", kImageSize = "image-size",
                                  kLearningRate = "learning-rate", kLogPath = "log-path",
                                  kModelName = "model-name", kNormalization = "normalization",
                                  kPrecision = "precision", kRanks = "ranks", kRecipe = "recipe",
                                  kShardBy = "shard-by", kSteps = "steps", kThreads = "threads",
                                  kTimeLimit = "time-limit", kWeights = "weights";

// Those of training in epochs, which a head that is fitted to features has no use for.
inline constexpr std::array<std::string_view, 13> kOfEpochs = {
    "epochs",     "steps",       "patience",         "learning-rate", "head-learning-rate",
    "lr-scaling", "lr-schedule", "num-warmup-steps", "momentum",      "weight-decay",
    "no-decay",   "accumulate",  "layer-decay"};
// Those of them that would mean something else without epochs.
inline constexpr std::array<std::string_view, 6> kOfEpochsAlone = {
    "optimizer", "ema", "clip-norm", "label-smoothing", "mixup", "cutmix"};
// Those whose value is compared on resume as the run has found it, and not as it was asked for.
inline constexpr std::array<std::string_view, 6> kFoundOnResume = {"ranks",     "threads", "device",
                                                                   "precision", "exif",    "fit"};
// Those that the run finds, and that a recorded run was therefore trained with.
inline constexpr std::array<std::string_view, 4> kRecordedAsFound = {"auto", "augment",
                                                                     "learning-rate", "batch-size"};
// Found ones that no other line of the log shows.
inline constexpr std::array<std::string_view, 4> kOwnLine = {"model-name", "auto", "learning-rate",
                                                             "batch-size"};
}  // namespace options

// The setting of an option of `kiln train`, found before the others are.
Setting found_for_train(std::string_view name, std::string text, std::string reason,
                        Origin origin = Origin::kAuto);

// The first lines of a run's log: what the command line left open, and how to say it;
// train_checks.cpp.
std::vector<std::string> first_lines(const Settings& settings);

}  // namespace kiln
