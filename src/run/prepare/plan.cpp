#include "run/prepare/plan.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "cli/options.h"
#include "data/dataset/dataset.h"
#include "run/inputs/stream_inputs.h"
#include "run/judge.h"
#include "run/prepare/class_counts.h"
#include "run/prepare/memory.h"
#include "run/prepare/rank_agreement.h"
#include "run/prepare/repeat_file.h"
#include "run/saved_features.h"
#include "train/features/head_fit.h"
#include "train/features/likeness.h"
#include "train/optimizer/catalogue.h"

namespace kiln {
namespace {

constexpr const char* kTwoLayers =
    "the network ends in two linear layers, like one made by `kiln init-model --pretrained True`";
constexpr const char* kFitted =
    "with --freeze backbone and --augment none the last layer is fitted to features directly";

// A clause that says why --auto True cannot be used; empty if it can.
std::string hindrance(const Sources& sources, bool has_weights) {
  if (sources.train.is_stream()) return "the images of a stream cannot be read again";
  if (sources.spec().pretrained) return kTwoLayers;
  if (!has_weights) return "the weights are not pretrained: give some with --weights";
  return "";
}

// Whether --auto is on. Adds it to the settings, unless it need not be said. A collective.
bool decide_automatic(const TrainConfig& config, const Sources& sources, World& world,
                      Settings& settings) {
  constexpr std::int64_t kFewImages = 5000;  // with as many or more, it must be asked for
  const bool is_asked = config.optimization.automatic == AutoChoice::kYes;
  const bool is_off = config.optimization.automatic == AutoChoice::kNo;
  const Setting& setting = config.settings.of(options::kAuto);
  const std::string given = setting.is_given() ? "" : setting.reason;  // another option is
  if (is_off && given.empty()) return false;
  // Rank 0 has built the network, and may be the only rank that has read the weights.
  const bool has_weights = world.broadcast(!sources.weights_text.empty());
  const std::string why_not = is_off ? given : hindrance(sources, has_weights);
  if (is_asked)
    world.agree([&] {
      if (!why_not.empty())
        throw Error(ErrorCode::kUserError,
                    "--auto True cannot be used, since " + why_not + "; or leave --auto out.");
    });
  else if (!has_weights)
    return false;
  const auto images =
      static_cast<std::int64_t>(sources.train.samples.size() + sources.valid.samples.size());
  const bool is_few = images < kFewImages, is_on = is_asked || (why_not.empty() && is_few);
  std::string reason = plural(images, "image", "images");
  if (is_asked)
    reason = "as --auto True or a path alone asks";
  else if (is_on)
    reason += " and given weights";
  else if (!why_not.empty())
    reason = why_not +
             (is_few && why_not == "--epochs is given" ? "; --auto True suits so few images" : "");
  settings = settings.found(options::kAuto, is_on ? "True" : "False", reason);
  return is_on;
}

// Sets what --auto sets unless it was given.
void set_for_fine_tuning(const TrainConfig& config, TransformSpec& pixels, Settings& settings) {
  if (!config.settings.is_given(options::kAugment)) {
    pixels.augment = parse_augment("flip");
    settings = settings.found(options::kAugment, "flip", "--auto: for fine-tuning");
  }
  const OptimizationConfig& length = config.optimization;
  if (!config.settings.is_given(options::kEpochs) && length.steps == 0 && length.time_limit_s == 0)
    settings = settings.found(options::kEpochs, std::to_string(length.epochs),
                              "--auto: for fine-tuning, the default");
}

// The learning rate where none is given, which suits the optimizer and the batch.
double found_rate(const OptimizationConfig& config, Settings& settings) {
  constexpr double kOfModern = 0.3;  // without its warm-up; measured in docs/recipes.md
  const KnownOptimizer& optimizer = *find_row(kKnownOptimizers, config.recipe.optimizer);
  const int images = config.batch_size * config.accumulate;
  const std::string text = formatted("%.2g", kOfModern * optimizer.modern_learning_rate(images));
  settings =
      settings.found(options::kLearningRate, text,
                     formatted("for %s and %d images a step", optimizer.name.data(), images));
  return std::stod(text);
}

// The command line rules out other reasons why --folds has no features to work with.
[[noreturn]] void refuse_folds(const TransformSpec& pixels) {
  throw Error(ErrorCode::kUserError,
              "--folds needs images whose features are the same in every epoch, but " +
                  (draws(pixels) ? "--transform-path has random operations (" +
                                       pixels.chain->whole.summary() +
                                       "): remove those whose names begin with Random"
                                 : kTwoLayers + std::string(": give --model-name and --weights")) +
                  ", or leave --folds out.");
}

// Of the options about training in epochs, of which there are none: throws Error kUserError for
// those that would mean something else, and warns of the others.
void check_unused(const Settings& settings, std::vector<std::string>& warnings) {
  for (const std::string_view name : options::kOfEpochsAlone)
    if (!settings.of(name).is_default())
      throw Error(ErrorCode::kUserError, "--" + std::string(name) +
                                             " applies to training in epochs, but " + kFitted +
                                             ": use --augment flip, or leave it out.");
  std::vector<std::string> unused;
  for (const std::string_view name : options::kOfEpochs)
    if (const Setting& setting = settings.of(name);
        setting.origin >= Origin::kFile && !setting.is_default())
      unused.push_back("--" + std::string(name));
  if (!unused.empty())
    warnings.push_back(
        without_effect(unused, kFitted + std::string("; --augment flip trains it in epochs")));
}

// Rank 0 holds the features of all images.
void check_feature_memory(const Sources& sources, const ImageModel& model, bool is_automatic) {
  constexpr double kShare = 0.5;  // share of the available memory
  const auto count =
      static_cast<std::int64_t>(sources.train.samples.size() +
                                (sources.judged_out_of_fold ? 0 : sources.valid.samples.size()));
  const double needed = fit_memory(count, model.head()[0].tensor.size(1),
                                   static_cast<std::int64_t>(sources.num_classes()));
  const double limit = kShare * static_cast<double>(available_memory_bytes());
  if (needed <= limit) return;
  throw Error(
      ErrorCode::kUserError,
      std::string(is_automatic ? "With --auto True" : "With --freeze backbone and --augment none") +
          " the features of all " + grouped(count) + " images take " + bytes_text(needed) +
          ", more than half of the available memory: use --freeze backbone --augment flip, which "
          "trains the last layer in epochs, or fewer images.");
}

// Throws what make_plan() throws for options that fit each other, but not these images or this
// machine. Returns warnings.
std::vector<std::string> check(const PlanInputs& given, const PixelPlan& pixels,
                               const Division& division, bool is_automatic, bool uses_features,
                               const PrecisionChoice& precision, const World& world) {
  const OptimizationConfig& asked = given.config.optimization;
  if (division.steps_per_epoch == 0 && !uses_features)
    throw Error(ErrorCode::kInvalidDataset,
                "The training dataset, or a shard of it, has fewer images than one step needs. "
                "Use a smaller --batch-size or --accumulate, or more images.");
  if (asked.folds > 0 && !uses_features) refuse_folds(pixels.train);
  if (given.config.output.keep_features && given.sources.train.is_stream())
    throw Error(ErrorCode::kUserError,
                "--keep-features needs the training images once more, but those of a stream are "
                "gone by then: leave it out.");
  judge_of(given.sources.train)
      .check(given.sources, uses_features && asked.class_weights.rule != ClassWeights::kNone);
  std::vector<std::string> warnings;
  if (uses_features) check_unused(given.config.settings, warnings);
  if ((uses_features || is_automatic) && world.leads())
    check_feature_memory(given.sources, given.model, is_automatic);
  const bool is_half =
      precision.precision == Precision::kBf16 || precision.precision == Precision::kFp16;
  check_step_memory(given.machine.device, given.model, world, pixels,
                    {.batch_size = asked.batch_size,
                     // Of frozen stages backward needs nothing, so that no least is known.
                     .is_backward = !uses_features && (asked.freeze == Freeze::kNone ||
                                                       asked.freeze == Freeze::kNorm),
                     .is_half = is_half},
                    warnings);
  return warnings;
}

// In the order of the classes. Throws Error kUserError unless there is one for each.
std::vector<double> given_weights(const ClassWeighting& asked,
                                  const std::vector<std::string>& classes) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::kUserError, "--class-weights " + what);
  };
  for (const auto& [name, weight] : asked.given)
    if (std::ranges::find(classes, name) == classes.end())
      refuse("names '" + excerpt(name) +
             "', which is no class of the training images: leave it out." +
             did_you_mean(name, classes));
  std::vector<double> weights;
  for (const std::string& name : classes) {
    const auto found = asked.given.find(name);
    if (found == asked.given.end()) refuse("lacks the class '" + excerpt(name) + "': add it.");
    weights.push_back(found->second);
  }
  return weights;
}

// A collective if class weights are requested.
std::vector<double> class_weights_of(const ClassWeighting& asked, const Sources& sources,
                                     const Division& division, World& world) {
  const ClassWeights choice = asked.rule;
  if (choice == ClassWeights::kNone) return {};
  std::vector<double> weights;
  world.agree([&] {
    if (choice == ClassWeights::kGiven) weights = given_weights(asked, sources.train.classes);
  });
  if (!weights.empty()) return weights;
  const std::vector<long long> counts =
      counts_of_all(world, sources.train, sources.num_classes(),
                    division.has_own_train ? &division.train : nullptr);
  return judge_of(sources.train).class_weights(choice, counts, sources.train.samples.size());
}

// How many epochs the schedule has, by --epochs or --steps.
Length length_of(const TrainConfig& config, std::int64_t steps_per_epoch, bool is_automatic,
                 bool uses_features) {
  const OptimizationConfig& asked = config.optimization;
  Length length{.first_epochs = is_automatic ? 1 : 0,
                .steps = uses_features ? 0 : asked.steps,
                .steps_per_epoch = steps_per_epoch};
  if (uses_features) return length;
  const bool has_epochs = asked.steps == 0 || config.settings.is_given(options::kEpochs);
  length.epochs = has_epochs ? asked.epochs : length.epochs_for_steps();
  return length;
}

// A learning rate stays in effect when the run resumes, whatever the number of ranks.
double peak_of(const PlanInputs& given, double learning_rate, int num_ranks) {
  if (given.resume) return given.resume->run.peak_learning_rate;
  const int num_summed = given.config.ranks.exchange.num_summed_ranks(num_ranks);
  return learning_rate * given.config.optimization.lr_scaling.of(num_summed);
}

double head_rate_of(const PlanInputs& given, double learning_rate) {
  if (given.resume) return given.resume->run.head_rate;
  const std::optional<double> rate = given.config.optimization.head_learning_rate;
  return rate ? *rate / learning_rate : OptimizerPlan().head_rate;
}

Recipe recipe_of(const PlanInputs& given, double learning_rate, const Length& length,
                 Precision precision, std::vector<double> class_weights, int num_ranks) {
  const OptimizationConfig& config = given.config.optimization;
  const RecipeConfig& recipe = config.recipe;
  const bool is_part = length.steps > 0 && !given.config.settings.is_given(options::kEpochs) &&
                       config.time_limit_s == 0;
  return {.optimizer = {.name = recipe.optimizer,
                        .momentum = recipe.momentum,
                        .weight_decay = recipe.weight_decay,
                        .head_rate = head_rate_of(given, learning_rate),
                        .layer_decay = config.layer_decay,
                        .decays_norm_and_bias = recipe.decays_norm_and_bias},
          .schedule = {.name = recipe.schedule,
                       .epochs = is_part ? static_cast<double>(length.steps) /
                                               static_cast<double>(length.steps_per_epoch)
                                         : length.epochs,
                       .warmup_epochs = config.num_warmup_steps,
                       .peak = peak_of(given, learning_rate, num_ranks),
                       .steps_per_epoch = static_cast<int>(length.steps_per_epoch)},
          .loss = {.class_weights = std::move(class_weights),
                   .label_smoothing = recipe.label_smoothing},
          .mix = {recipe.mixup, recipe.cutmix, static_cast<std::uint64_t>(config.random_seed)},
          .clip_norm = recipe.clip_norm,
          .ema = recipe.ema,
          .precision = precision,
          .freeze = config.freeze};
}

// The end of a sentence; the same on all ranks. A collective.
std::string why_no_features(const PlanInputs& given, const Division& division, bool is_designers,
                            World& world) {
  const Sources& sources = given.sources;
  if (given.config.output.no_hashes) return "--no-hashes leaves out what is known of single images";
  if (is_designers) return "a run with --untrained-model-path is the designer's";
  if (sources.train.is_stream() || sources.valid.is_stream())
    return "the images of a stream are gone when the model is chosen";
  if (!sources.train.labels.sets.empty()) return "the images have several labels";
  if (sources.num_classes() < 2) return "there is one class";
  const std::size_t num_shards =
      division.has_own_valid ? static_cast<std::size_t>(world.size()) : 1;
  const std::size_t num_valid =
      sources.judged_out_of_fold ? 0 : sources.valid.samples.size() * num_shards;
  if (world.broadcast(num_valid) >= kFewestHeldOut) return "";
  return "they need " + std::to_string(kFewestHeldOut) + " validation images";
}

StopRule stop_rule_of(const PlanInputs& given, const Division& division, const Length& length,
                      bool is_automatic, bool uses_features, const World& world) {
  const OptimizationConfig& config = given.config.optimization;
  const int ranks = division.has_own_valid ? 1 : world.size();
  return {.length = length,
          .time_limit_s = uses_features ? 0 : config.time_limit_s,
          .time_limit_word = given.config.settings.text(options::kTimeLimit),
          .patience = config.patience,
          .warmup_epochs = config.num_warmup_steps,
          .is_automatic = is_automatic,
          .writes_checkpoints = given.config.checkpoint.is_lasting(),
          .validation_batches = std::ceil(static_cast<double>(given.sources.valid.samples.size()) /
                                          ranks / config.batch_size),
          .accumulate = config.accumulate};
}

LoadingPlan loading_of(const TrainConfig& config, const Machine& machine) {
  return {.batch_size = config.optimization.batch_size,
          .accumulate = config.optimization.accumulate,
          .seed = static_cast<std::uint64_t>(config.optimization.random_seed),
          .sample = config.optimization.sample,
          .threads = machine.loader_threads,
          .records = config.data.records,
          .shuffle_buffer = static_cast<std::size_t>(config.data.stream.shuffle_buffer),
          .silence = silence_limits(config.ranks)};
}

// Of a run that resumes, what auto chose when it began. A collective.
PrecisionChoice precision_of(const PlanInputs& given, ImageSize size, World& world) {
  const std::optional<Precision> asked = given.config.optimization.precision;
  const Device& device = given.machine.device;
  const int side = std::max(size.width, size.height);
  PrecisionChoice choice = agreed_precision(world, asked, device, side);
  if (asked || !given.resume) return choice;
  const std::optional<Precision> saved =
      value_named<Precision>(kPrecisionNames, given.resume->run.precision);
  if (saved == choice.precision) return choice;
  choice = agreed_precision(world, saved, device, side);
  choice.reason = "auto: as in the checkpoint";
  return choice;
}

// What the options left open. A collective.
Settings with_open(const TrainConfig& config, const PixelPlan& pixels, bool is_pretrained,
                   const PrecisionChoice& precision, const Device& device, World& world,
                   Settings settings) {
  const auto add = [&](std::string_view option, std::string text, std::string reason) {
    settings = settings.found(option, std::move(text), std::move(reason));
  };
  if (const ImageSize size = pixels.train.output; config.data.image_size.height == 0) {
    // The common size of all images cannot be given as --image-size: it need not be square, and
    // nothing is resized.
    const bool is_resized = pixels.train.short_side != 0;
    add(options::kImageSize, is_resized ? std::to_string(size.height) : "",
        (is_resized ? "" : formatted("%dx%d, ", size.width, size.height)) + pixels.size_reason);
  }
  if (!config.data.fit)
    add(options::kFit, fit_name(pixels.train.fit), cut_text(pixels.cut_away.value_or(0)));
  if (config.data.normalization == NormalizationChoice::kAuto) {
    // One that comes with the weights has no name that the option accepts.
    const std::string& name = pixels.normalization_name;
    add(options::kNormalization, name == "half" || name == "imagenet" ? name : "",
        !pixels.normalization_reason.empty() ? pixels.normalization_reason
        : is_pretrained                      ? "set by the pretrained weights"
                                             : "the weights are not pretrained");
  }
  if (!config.optimization.precision)
    add(options::kPrecision, precision_name(precision.precision), precision.reason);
  const RanksConfig& ranks = config.ranks;
  if (ranks.device == DeviceChoice::kAuto)
    add(options::kDevice, device.is_cuda ? "cuda" : "cpu", device.description);
  const std::vector<int> threads = world.gather(at::get_num_threads());
  const bool equal = std::ranges::count(threads, threads.front()) == std::ssize(threads);
  if (ranks.threads == 0)
    add(options::kThreads, equal ? std::to_string(threads.front()) : "",
        equal ? "one per processor" : "differs between ranks");
  if (world.size() == 1 || (ranks.launch && *ranks.launch > 0)) return settings;
  const bool on_one_host = world.local_size() == world.size();
  const std::string count = std::to_string(world.size());
  add(options::kRanks, on_one_host ? count : "",
      on_one_host ? "the processes of this run" : count + " on several hosts");
  return settings;
}

}  // namespace

ModelOptions model_options(const Sources& sources) {
  const ModelSpec& spec = sources.spec();
  return {.model_name = spec.model_name,
          .num_classes = static_cast<int>(sources.num_classes()),
          .with_output_layer = spec.pretrained,
          .memory_efficient = spec.memory_efficient,
          .zero_init_residual = spec.zero_init_residual};
}

Plan make_plan(const PlanInputs& given, PixelPlan pixels, Division division,
               const std::vector<Setting>& found, World& world) {
  const TrainConfig& config = given.config;
  const OptimizationConfig& asked = config.optimization;
  const Sources& sources = given.sources;
  const Device& device = given.machine.device;
  Settings settings = config.settings;
  for (const Setting& one : found) settings = settings.replaced(one);
  const bool is_automatic = decide_automatic(config, sources, world, settings);
  if (is_automatic) set_for_fine_tuning(config, pixels.train, settings);
  // Whether only the head is trained and every image looks the same in every epoch.
  const bool uses_features = asked.freeze == Freeze::kBackbone && !sources.train.is_stream() &&
                             pixels.train.augment == Augment::kNone && !draws(pixels.train) &&
                             !division.has_own_train && !sources.spec().pretrained;
  const PrecisionChoice precision = precision_of(given, pixels.train.output, world);
  // Without --auto, in a run with --untrained-model-path, it is the designer's.
  const bool is_designers = !config.data.untrained_model_path.empty() && !is_automatic;
  const bool has_rate = config.settings.is_given(options::kLearningRate) || is_designers;
  const double learning_rate =
      has_rate || uses_features ? asked.learning_rate : found_rate(asked, settings);
  std::vector<std::string> warnings;
  world.agree([&] {
    warnings = check(given, pixels, division, is_automatic, uses_features, precision, world);
  });
  const Length length = length_of(config, division.steps_per_epoch, is_automatic, uses_features);
  std::vector<double> class_weights =
      class_weights_of(asked.class_weights, sources, division, world);
  world.agree([&] {
    if (const long long all = length.steps_per_epoch * length.epochs; length.steps > all)
      throw Error(ErrorCode::kUserError,
                  formatted("--steps is %lld, but --epochs %d has only %lld steps: give one of the "
                            "two, or more epochs.",
                            static_cast<long long>(asked.steps), asked.epochs, all));
  });
  Recipe recipe = recipe_of(given, learning_rate, length, precision.precision,
                            std::move(class_weights), world.size());
  StopRule stop = stop_rule_of(given, division, length, is_automatic, uses_features, world);
  std::string without_features = why_no_features(given, division, is_designers, world);
  if (without_features.empty()) stop.features_s = kFeatureShare * stop.time_limit_s;
  settings = with_open(config, pixels, sources.spec().pretrained, precision, device, world,
                       std::move(settings));
  if (stop.time_limit_s > 0)
    settings = settings.found(options::kEpochs, std::to_string(length.epochs),
                              "maximum: --time-limit decides after the first epoch");
  const int num_training_ranks = config.ranks.exchange.num_training_ranks(world.size());
  return {.precision = precision,
          .uses_features = uses_features,
          .is_automatic = is_automatic,
          .without_features = std::move(without_features),
          .pixels = std::move(pixels),
          .division = std::move(division),
          .loading = loading_of(config, given.machine),
          .learning_rate = learning_rate,
          .recipe = std::move(recipe),
          .stop = std::move(stop),
          .num_training_ranks = num_training_ranks,
          .global_batch = std::int64_t{num_training_ranks} * asked.batch_size * asked.accumulate,
          .texts_in_effect =
              texts_in_effect(config.settings, settings, length.steps > 0 ? length.epochs : 0),
          .settings = settings,
          .warnings = std::move(warnings)};
}

Settings settings_of_frozen_alone(Settings settings, const Settings& asked,
                                  const std::string& reason) {
  for (const std::string_view unused : {options::kEpochs, options::kSteps, options::kLearningRate})
    settings = settings.replaced(asked.of(unused));
  return settings.found(options::kAuto, "False", reason)
      .found(options::kFreeze, "backbone", reason)
      .found(options::kAugment, "none", "features are computed without augmentation");
}

}  // namespace kiln
