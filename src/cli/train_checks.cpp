// What several options of `kiln train` mean together: the options that --recipe sets, faults, and
// values that follow from others.
#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/platform/launch_environment.h"
#include "base/text.h"
#include "cli/paths.h"
#include "cli/rows.h"
#include "model/catalogue.h"
#include "record/run_file.h"
#include "train/exchange/catalogue.h"
#include "train/optimizer/catalogue.h"
#include "train/schedule/catalogue.h"

namespace kiln {
namespace {

// ---- data ----

// Decides --fit where the images do not matter.
void check_fit(Given& given, const RecipeConfig& recipe, DataConfig& config) {
  bool crops = !config.transform_path.empty() ||
               (recipe.name == "designer" &&
                (config.network.weights.empty() || given.is_set("recipe", "designer")));
  for (const char* name : {"eval-resize", "eval-crop"}) {
    const GivenValue* value = given.find(name);
    if (value == nullptr || value->origin == Origin::kRecipe || value->text == "auto") continue;
    crops = true;
    if (config.fit.value_or(Fit::kCrop) != Fit::kCrop)
      given.refuse(name, "cannot be used with --fit " + fit_name(*config.fit) +
                             ", which shows whole images at the training size: leave one out.");
  }
  if (!config.fit && crops) config.fit = Fit::kCrop;
}

void check_split(Given& given, const DataConfig& config) {
  const bool is_split = given.has("data-path");
  for (const char* option : {"valid-fraction", "group-by", "split", "labels"})
    if (!is_split && given.has(option))
      given.refuse(option,
                   "divides one dataset: give --data-path " +
                       (config.train_path.empty() ? "FOLDER" : shell_words({config.train_path})) +
                       " alone to split that one.");
  if (config.has_train_shard && is_split)
    given.refuse("data-path",
                 "cannot be used with --shard-by none or train, whose hosts do not know each "
                 "other's images: give --train-data-path and --valid-data-path.");
  if (config.split.valid_fraction >= 1)
    given.refuse("valid-fraction",
                 "is 1, which leaves nothing to train on: use less than 1, such as 0.2.",
                 ErrorCode::kNotInRangeValue);
  for (const char* option : {"valid-fraction", "group-by"})
    if (given.has("split") && given.has(option))
      given.refuse(
          option,
          "and --split are both given, but the file already assigns each image: omit one of them.");
}

void check_data(Given& given, DataConfig& config) {
  check_network(given, config.network);
  given.check(given.position("eval-resize"), [&] {
    check_eval_size(config.eval_resize,
                    config.eval_crop.side > 0
                        ? config.eval_crop.side
                        : std::max(config.image_size.height, config.image_size.width));
  });
  for (const char* name : {"image-size", "fit", "augment", "eval-resize", "eval-crop"})
    if (!config.transform_path.empty() && given.is_set(name, ""))
      given.refuse(name,
                   "cannot be used with --transform-path, whose operations resize, crop and "
                   "augment the images: leave one of the two out.");
  if (config.cache == CachePolicy::kDecoded && takes_random_parts(config.augment))
    given.refuse("cache",
                 "decoded requires the same crop of an image in every epoch, but --augment " +
                     augment_name(config.augment) + " crops at random: use --cache bytes or auto.");
  config.has_train_shard = config.shard_by != ShardBy::kRank || config.has_own_images();
  config.has_valid_shard = config.shard_by == ShardBy::kNone;
  config.stream.by_record = config.shard_by == ShardBy::kRecord;
  config.stream.by_host = config.shard_by == ShardBy::kHost;
  check_split(given, config);
  if (!config.split.data_path.empty())
    config.train_path = config.valid_path = config.split.data_path;
}

// ---- optimization ----

void check_optimization(Given& given, OptimizationConfig& config) {
  if (!given.has("epochs") && config.time_limit_s > 0) config.epochs = kMaxEpochsInTime;
  const RecipeConfig& recipe = config.recipe;
  for (const auto& [name, value, why] :
       {std::tuple{"momentum", recipe.momentum, "steps would add up forever"},
        {"ema", recipe.ema, "the average would never change"},
        {"label-smoothing", recipe.label_smoothing, "labels would carry no information"}})
    if (value >= 1)  // the options' ranges include 1
      given.refuse(name, std::string("is 1, with which ") + why + ": use a smaller number.",
                   ErrorCode::kLessThanOrEqualTo);
  if (config.sample == Sampling::kBalanced && config.class_weights.rule != ClassWeights::kNone)
    given.refuse("class-weights",
                 "and --sample balanced both favor small classes: use one of the two.");
  if (config.save == SaveChoice::kLast && config.best_by != BestBy::kTop1 &&
      config.best_by != BestBy::kMap)
    given.refuse(
        "best-by",
        "chooses the epoch that --save best saves, but --save is last: leave one of them out.");
}

void check_checkpoint(Given& given, TrainConfig& config) {
  CheckpointConfig& checkpoint = config.checkpoint;
  const GivenValue* path = given.find("checkpoint-path");
  checkpoint.is_unasked = path == nullptr || path->origin == Origin::kRecipe;
  if (path != nullptr) return;
  if (!collects_outputs() && !given.has("kfp-executor-input")) {
    checkpoint.path = (std::filesystem::path(config.output.log_path) / "checkpoint").string();
    checkpoint.is_temporary = true;
    if (!given.has("checkpoint-every")) checkpoint.every.epochs = 0;
    return;
  }
  if (checkpoint.resume == ResumeChoice::kRequire)
    given.refuse("resume", "require needs a folder with checkpoints: add --checkpoint-path DIR.");
  if (given.has("checkpoint-every"))
    given.refuse("checkpoint-every", "needs a folder for checkpoints: add --checkpoint-path DIR.");
}

void check_fine_tuning(Given& given, TrainConfig& config) {
  const OptimizationConfig& optimization = config.optimization;
  if (freezes_all_norms(optimization.freeze) && config.ranks.sync_batch_norm)
    given.refuse("sync-batch-norm",
                 "has nothing to synchronize with --freeze: leave one of the two out.");
  if (optimization.folds == 0) return;
  config.data.split.all_train = config.data.split.file.empty();
  if (optimization.folds == 1)
    given.refuse("folds", "is 1, but cross-validation needs at least 2: use 2 or more, or 0.");
  if (optimization.freeze != Freeze::kBackbone || config.data.augment != Augment::kNone)
    given.refuse(
        "folds",
        "needs the features of a frozen network: add --freeze backbone and --augment none, or "
        "leave --folds out.");
  if (config.data.has_train_shard)
    given.refuse("folds",
                 "divides images that all ranks share: use --shard-by rank, or leave --folds out.");
  if (given.has("data-path") && given.has("valid-fraction"))
    given.refuse("valid-fraction",
                 "sets images aside, but --folds judges all: leave one of the two out.");
}

// ---- --auto ----

// The options that --auto decides. With an explicit --auto True, the first three are refused, and
// the others keep the values that they are given.
constexpr std::array kDecided = {"freeze",           "folds",         "transform-path",
                                 "augment",          "epochs",        "steps",
                                 "num-warmup-steps", "learning-rate", "head-learning-rate"};

// Reports a fault if `option` is given together with --auto True, which cannot use it.
void refuse_beside(Given& given, const char* option, const std::string& reason) {
  if (!given.has(option)) return;
  given.fault(option, "--auto True and --" + std::string(option) + " are both given, but " +
                          reason + ": leave one of the two out.");
}

void check_auto(Given& given, const TrainConfig& config) {
  refuse_beside(given, "freeze", "--auto decides which layers are frozen");
  refuse_beside(given, "folds", "--auto compares models on validation images");
  refuse_beside(given, "transform-path", "--auto decides the augmentation");
  if (config.ranks.sync_batch_norm)
    refuse_beside(given, "sync-batch-norm", "the head is fitted while BatchNorm is frozen");
  if (config.data.has_train_shard)
    refuse_beside(given, config.data.has_own_images() ? "train-data-path" : "shard-by",
                  "the head is fitted to images that all ranks share");
  if (given.has("model-name") && !given.has("weights"))
    given.refuse("auto", "True needs a pretrained network: give --weights, or leave --auto out.");
}

// Decides whether --auto is on, as far as the command line can tell if it is not given: the number
// of images is not known yet. Its setting gets the reason why it is not, if other options are that.
void resolve_auto(Given& given, TrainConfig& config) {
  AutoChoice& automatic = config.optimization.automatic;
  if (config.optimization.asked_auto.value_or(false)) {
    automatic = AutoChoice::kYes;
    check_auto(given, config);
  }
  if (given.has("auto")) return;
  const bool may_have_weights = given.has("weights") || given.has("untrained-model-path");
  if (config.data.split.data_path.empty() || !may_have_weights) return;
  const auto* const decided =
      std::ranges::find_if(kDecided, [&](const char* option) { return given.has(option); });
  std::string why_not;
  if (decided != kDecided.end())
    why_not = "--" + std::string(*decided) + " is given";
  else if (config.ranks.sync_batch_norm)
    why_not = "--sync-batch-norm is given";
  else if (const KnownExchange& exchange = *config.ranks.exchange.kind; exchange.refuses("auto"))
    why_not = "--exchange is " + std::string(exchange.name);
  else if (task_refuses(given, "auto"))
    why_not = "--task is given";
  else
    automatic = AutoChoice::kIfFewImages;
  config.settings = config.settings.with("auto", "", Origin::kDefault, why_not);
}

// ---- ranks ----

void check_exchange(Given& given, const TrainConfig& config) {
  const RanksConfig& ranks = config.ranks;
  const KnownExchange& kind = *ranks.exchange.kind;
  if (config.data.has_own_images() && kind.refuses("shard-by"))
    given.refuse("train-data-path",
                 "with {rank} cannot be used with --exchange " + std::string(kind.name) +
                     ", whose servers would not train on their images: leave one of the two out.");
  refuse_unfit(given, kind.unfit, [&](const UnfitOption& unfit) {
    return "cannot be used with --exchange " + std::string(kind.name) + ", " +
           std::string(unfit.reason) + ": leave one of the two out.";
  });
  if (const int started = ranks.launch.value_or(0); started > 0)
    given.check(given.position("exchange"), [&] { ranks.exchange.require_ranks(started); });
}

// ---- recipe ----

void check_recipe(Given& given, const OptimizationConfig& config) {
  const RecipeConfig& recipe = config.recipe;
  if (recipe.mixup + recipe.cutmix > 0 && config.batch_size % 2 != 0) {
    const std::string name = recipe.mixup > 0 ? "mixup" : "cutmix";
    given.refuse(name, "mixes the images of a batch in pairs, but --batch-size is " +
                           std::to_string(config.batch_size) + ": use an even one, or --" + name +
                           " 0.");
  }
  // With --time-limit, the number of epochs is known only after the first epoch has been timed.
  const KnownSchedule& schedule = *find_row(kKnownSchedules, recipe.schedule);
  if (config.time_limit_s > 0 && schedule.is_per_step && schedule.fall != nullptr &&
      config.num_warmup_steps < 1)
    given.fault("lr-schedule",
                "--time-limit sets the number of epochs after the first one, whose learning rates "
                "must not depend on it: use --lr-schedule polynomial, or cosine with "
                "--num-warmup-steps 1 or more.");
}

// ---- paths ----

// The options that name what a run reads.
const std::vector<const char*> kInputs = {"untrained-model-path", "weights",
                                          "transform-path",       "data-path",
                                          "train-data-path",      "valid-data-path"};
// These may lie in a folder for output, but no output may replace them.
const std::vector<const char*> kInputFiles = {"config", "labels", "split", "classes"};

void check_paths(Given& given, const TrainConfig& config) {
  const OutputConfig& output = config.output;
  const std::string &model = output.trained_model_path, &logs = output.log_path;
  given.keep_apart("trained-model-path", kInputs);
  if (lies_inside(logs, model))
    given.fault(config.settings.is_given("log-path") ? "log-path" : "trained-model-path",
                "--log-path '" + logs + "' is inside --trained-model-path '" + model +
                    "', which must hold only the model: choose another folder for --log-path.");
  std::vector<const char*> outputs = {"trained-model-path"};
  for (const char* name : {"checkpoint-path", "explain", "trace"}) {
    given.keep_apart(name, kInputs);
    given.keep_apart(name, outputs);
    outputs = {"trained-model-path", "checkpoint-path"};
  }
  given.keep_apart("trace", kInputFiles);
  if (output.keep_features && output.no_hashes)
    given.refuse("keep-features", "keeps what --no-hashes leaves out: choose one of them.");
  if (output.keep_features && config.data.has_train_shard)
    given.refuse("keep-features", "needs all training images on rank 0: leave --shard-by out.");
  if (output.no_pictures && !output.explain.empty())
    given.refuse("no-pictures", "leaves out what --explain draws: choose one of them.");
  // The folder of --explain may be inside the log folder.
  if (lies_inside(logs, output.explain))
    given.refuse("explain",
                 "'" + output.explain + "' would hold --log-path '" + logs +
                     "' and must hold only pictures: choose a separate folder, such as '" + logs +
                     "/mistakes'.");
}

// ---- what is omitted ----

namespace fs = std::filesystem;

bool has_folder(const fs::path& path) {
  return std::ranges::any_of(names_in(path),
                             [&](const std::string& name) { return is_folder(path / name); });
}

// The folder of validation images beside that of training images in `data`; empty: none, or several
// of which nobody knows the right one, so that the folder is refused as it is.
std::string valid_folder_in(const fs::path& data) {
  std::string found;
  for (const char* name : kValidationFolders) {
    if (!has_folder(data / "train") || !has_folder(data / name)) continue;
    if (!found.empty()) return "";
    found = (data / name).string();
  }
  return found;
}

// Makes --data-path the option for training images if there are validation images beside it or in
// it, so that it is not split.
void divide_data_path(Given& given) {
  if (!given.has("data-path") || given.has("train-data-path")) return;
  Setting& data = *given.find("data-path");
  const bool has_valid = given.has("valid-data-path");
  const std::string inside = has_valid ? "" : valid_folder_in(data.text);
  if (!has_valid && inside.empty()) return;
  data.option = find_option(given.command, "train-data-path");
  if (has_valid) return;
  const fs::path folder = data.text, valid_name = fs::path(inside).filename();
  std::vector<std::string> others = names_in(folder);
  std::erase_if(others, [&](const std::string& name) {
    return name.starts_with('.') || name == "train" || name == valid_name ||
           !is_folder(folder / name);
  });
  std::ranges::sort(others);
  data.text = (folder / "train").string();
  given.imply("valid-data-path", inside);
  if (!others.empty())
    given.find("valid-data-path")->reason = quoted_names(others, 10) + ", beside 'train' and '" +
                                            valid_name.string() +
                                            "'; kiln evaluate judges the model by a test set";
}

bool has_any(const Given& given, std::span<const char* const> names) {
  return std::ranges::any_of(names, [&](const char* name) { return given.has(name); });
}

// For a path without an option's name: what trains well in ten minutes, and the line that says all
// that it stands for.
void imply_helpful(Given& given) {
  if (!has_any(given, std::array{"weights", "untrained-model-path"}))
    given.imply("recipe", "modern");
  else if (given.has("weights") && !has_any(given, kDecided) &&
           !has_any(given, std::array{"recipe", "sync-batch-norm", "shard-by", "exchange"}) &&
           !task_refuses(given, "auto"))
    given.imply("auto", "True");
  if (!given.has("batch-size")) given.imply("batch-size", "auto");
  if (!has_any(given, std::array{"epochs", "steps", "lr-schedule"}))
    given.imply("time-limit", "10min");
  std::vector<std::string> words = {"kiln", "train"};
  for (const Option& option : given.command.options)
    if (const GivenValue* value = given.find(option.name);
        value != nullptr && value->origin != Origin::kRecipe)
      words.insert(words.end(), {"--" + option.name, value->text});
  for (const char* name : {"data-path", "train-data-path"})
    if (GivenValue* path = given.find(name)) path->reason = shell_words(words);
}

}  // namespace

void imply_usual(Given& given, const TrainConfig& config) {
  if (!config.run_path.empty()) {
    std::erase_if(given.values, [](const GivenValue& value) {  // the default, which is implied
      return value.name() == "trained-model-path" && value.position == kMissingPosition;
    });
    for (const auto& [name, folder] : {std::pair{"trained-model-path", kModelOfRun},
                                       {"log-path", kLogsOfRun},
                                       {"checkpoint-path", kCheckpointsOfRun}})
      given.imply(name, (fs::path(config.run_path) / folder).string(), "run-path");
  }
  divide_data_path(given);
  // What a file says is kept with the run, which may be repeated without it.
  if (GivenValue* weights = given.find("class-weights");
      weights != nullptr && config.optimization.class_weights.rule == ClassWeights::kGiven)
    weights->text = text_of(config.optimization.class_weights);
  const NetworkConfig& network = config.data.network;
  const bool is_auto = network.model_name == kAutoNetwork && given.has("weights") &&
                       !names_published(network.weights);
  if (is_auto)
    std::erase_if(given.values,
                  [](const GivenValue& value) { return value.name() == "model-name"; });
  if (has_several(given)) given.imply("best-by", "map");
  if (is_auto || !has_any(given, std::array{"model-name", "untrained-model-path"})) {
    given.imply("model-name", network_of(network.weights));
    given.find("model-name")->reason =
        is_auto ? ", by the name of --weights" : "; --model-name takes another, such as resnet50";
  }
  if (given.has_bare_path) imply_helpful(given);
}

std::vector<std::string> first_lines(const Settings& settings) {
  std::vector<std::string> lines;
  const auto add = [&](const char* label, std::string_view name, bool has_text) {
    const Setting& setting = settings.of(name);
    if (setting.origin == Origin::kGiven && !setting.reason.empty())
      lines.push_back(formatted("%-18s", label) + (has_text ? setting.text : "") + setting.reason);
  };
  add("left out:", "valid-data-path", false);
  add("in full:", "data-path", false);
  add("in full:", "train-data-path", false);
  add("network:", "model-name", true);
  return lines;
}

constexpr double kFewEpochs = 30;  // in which images that never change are not learned by heart

OptionTexts modern_by_length(const OptimizationConfig& config, double epochs, double steps,
                             int kept_side, double rate_of_ranks) {
  constexpr double kFewSteps = 400;                      // no time to recover from large steps
  constexpr double kFewForAverages = 600;                // weights change much until the end
  constexpr double kOfShort = 0.3;                       // of the usual learning rate
  constexpr double kWarmupShare = 0.3, kMostWarmup = 5;  // of the epochs; epochs
  constexpr int kSmallSide = 64;  // pixels; at 32, crops lose in 5 to 40 epochs
  constexpr double kAveragedShare = 0.1, kMostDecay = 0.9999;  // of the steps; of the average
  const KnownOptimizer& optimizer = *find_row(kKnownOptimizers, config.recipe.optimizer);
  const double images = static_cast<double>(config.batch_size) * config.accumulate;
  const double rate = (steps < kFewSteps ? kOfShort : 1) * optimizer.modern_learning_rate(images);
  const bool is_long = epochs >= kFewEpochs;
  const bool has_crops = kept_side == 0 || (is_long && kept_side > kSmallSide);
  return {{"learning-rate", formatted("%.6g", rate)},
          {"weight-decay",
           formatted("%.2g", optimizer.modern_weight_decay(rate * rate_of_ranks * steps))},
          {"num-warmup-steps", formatted("%g", std::min(kMostWarmup, kWarmupShare * epochs))},
          {"ema", steps < kFewForAverages
                      ? "0"
                      : formatted("%.6g", std::min(kMostDecay, 1 - 1 / (kAveragedShare * steps)))},
          {"mixup", is_long ? "0.1" : "0"},
          {"augment", has_crops ? "standard" : "flip"}};
}

void imply_recipe(Given& given, const TrainConfig& config) {
  OptimizationConfig optimization = config.optimization;
  if (optimization.recipe.name != "modern") return;
  if (optimization.batch_size == 0) optimization.batch_size = kUsualBatch;  // until it is chosen
  const auto imply = [&](const char* name, const std::string& text) {
    given.imply(name, text, "recipe");
  };
  const std::string& untrained = config.data.untrained_model_path;
  const KnownNetwork* network =
      find_network(untrained.empty() ? config.data.network.model_name : network_of(untrained));
  if (network != nullptr && !given.has("optimizer")) {
    optimization.recipe.optimizer = network->family().modern_optimizer;
    imply("optimizer", optimization.recipe.optimizer);
  }
  const double epochs = given.has("time-limit") ? kUsualEpochsInTime : optimization.epochs;
  imply("no-decay",
        std::string(find_row(kKnownOptimizers, optimization.recipe.optimizer)->modern_no_decay));
  imply("lr-schedule", "cosine");
  if (!given.has("transform-path")) imply("eval-crop", "larger");
  constexpr double kManySteps = 1e4;
  for (const auto& [name, text] :
       modern_by_length(optimization, epochs, kManySteps, /*kept_side=*/0, /*rate_of_ranks=*/1))
    if (name != "augment" || !given.has("transform-path")) imply(name.c_str(), text);
  imply("patience", std::to_string(kNoEarlyStop));
  imply("precision", "auto");
}

Settings with_checkpoint(Settings settings, const OptionTexts& saved) {
  for (const auto& [name, unused] : modern_by_length(OptimizationConfig(), 1, 1, 0, 1)) {
    const auto text = std::ranges::find(saved, name, &OptionTexts::value_type::first);
    if (settings.of(name).origin == Origin::kRecipe && text != saved.end())
      settings = settings.with(name, text->second, Origin::kCheckpoint);
  }
  return settings;
}

Settings with_length(Settings settings, const TrainConfig& asked, std::int64_t steps_per_epoch,
                     int kept_side, int num_ranks) {
  const OptimizationConfig& config = asked.optimization;
  const auto in_epoch = static_cast<double>(std::max<std::int64_t>(1, steps_per_epoch));
  double epochs = config.epochs;
  if (!settings.is_given("epochs") && config.steps > 0)
    epochs = static_cast<double>(config.steps) / in_epoch;
  if (config.time_limit_s > 0) epochs = std::min<double>(epochs, kUsualEpochsInTime);
  const ExchangePlan& exchange = asked.ranks.exchange;
  // Either one step at a larger rate, or a step of each.
  const double of_ranks = exchange.kind->sums_ranks ? config.lr_scaling.of(num_ranks)
                                                    : exchange.num_training_ranks(num_ranks);
  for (const auto& [name, text] :
       modern_by_length(config, epochs, epochs * in_epoch, kept_side, of_ranks))
    if (settings.of(name).origin == Origin::kRecipe &&
        (name != "mixup" || config.batch_size % 2 == 0))
      settings = settings.with(name, text, Origin::kLength);
  return settings;
}

void check_train(Given& given, TrainConfig& config) {
  check_data(given, config.data);
  check_fit(given, config.optimization.recipe, config.data);
  check_optimization(given, config.optimization);
  check_checkpoint(given, config);
  config.ranks.arguments = given.words;
  config.settings = given.settings();
  if (!given.has("epochs"))
    config.settings = config.settings.with("epochs", std::to_string(config.optimization.epochs),
                                           Origin::kDefault);
  check_fine_tuning(given, config);
  check_task(given, config);
  resolve_auto(given, config);
  check_exchange(given, config);
  check_recipe(given, config.optimization);
  check_paths(given, config);
}

Problems overlaps_with_job(const char* output_name, const std::string& output,
                           const TrainConfig& config) {
  Problems problems;
  for (const auto& [name, path] : config.settings.texts()) {
    if (name != "trained-model-path" && std::ranges::count(kInputs, name) == 0 &&
        std::ranges::count(kInputFiles, name) == 0)
      continue;
    const std::string overlap = overlap_of(output_name, output, name.c_str(), path);
    if (!overlap.empty()) problems.add(Error(ErrorCode::kParameterParsing, overlap));
  }
  return problems;
}

void check_eval_size(int short_side, int crop) {
  if (short_side == 0 || short_side >= crop) return;
  refuse_text("--eval-resize is " + std::to_string(short_side) +
              ", smaller than the center crop of " + std::to_string(crop) +
              " pixels: use --eval-resize " + std::to_string(crop) +
              " or more, or a smaller --eval-crop.");
}

}  // namespace kiln
