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
#include "model/catalogue.h"
#include "run/inputs/stream_inputs.h"
#include "run/judge.h"
#include "run/prepare/class_counts.h"
#include "run/prepare/memory.h"
#include "run/prepare/rank_agreement.h"
#include "run/prepare/repeat_file.h"
#include "train/features/head_fit.h"
#include "train/optimizer/catalogue.h"

namespace kiln {
namespace {

// With this many images or more, --auto must be requested explicitly.
constexpr long long kFewImages = 5000;

long long num_images(const Sources& sources) {
  return static_cast<long long>(sources.train.samples.size() + sources.valid.samples.size());
}

void add_found(Plan& plan, std::string_view option, std::string text, std::string reason) {
  plan.settings = plan.settings.found(option, std::move(text), std::move(reason));
}

// A clause that says why --auto True cannot be used; empty if it can.
std::string hindrance(const Sources& sources, bool has_weights) {
  if (sources.train.is_stream()) return "the images of a stream cannot be read again";
  if (sources.spec().pretrained)
    return "the network ends in two linear layers, like one made by `kiln init-model --pretrained "
           "True`";
  if (!has_weights) return "the weights are not pretrained: give some with --weights";
  return "";
}

// Whether --auto is on, and why; nothing if that need not be said. A collective.
struct Decision {
  bool is_on = false;
  std::string reason;
};
std::optional<Decision> decide_automatic(const TrainConfig& config, const Sources& sources,
                                         World& world) {
  const AutoChoice choice = config.optimization.automatic.choice;
  const Setting& setting = config.settings.of(options::kAuto);
  const std::string given = setting.is_given() ? "" : setting.reason;  // another option is
  if (choice == AutoChoice::kNo && given.empty()) return {};
  // Rank 0 has built the network, and may be the only rank that has read the weights.
  const bool has_weights = world.broadcast(!sources.weights_text.empty());
  const std::string why_not = choice == AutoChoice::kNo ? given : hindrance(sources, has_weights);
  const std::string count = plural(num_images(sources), "image", "images");
  if (choice == AutoChoice::kYes) {
    world.agree([&] {
      if (!why_not.empty())
        throw Error(ErrorCode::kUserError,
                    "--auto True cannot be used, since " + why_not + "; or leave --auto out.");
    });
    return Decision{true, "as requested"};
  }
  if (!has_weights) return {};
  const bool is_few = num_images(sources) < kFewImages;
  if (!why_not.empty())
    return Decision{false, why_not + (is_few && why_not == "--epochs is given"
                                          ? "; --auto True suits so few images"
                                          : "")};
  if (!is_few) return Decision{false, count};
  return Decision{true, count + " and given weights"};
}

// Sets what --auto sets unless it was given.
void settle_automatic(const TrainConfig& config, const Sources& sources, World& world, Plan& plan) {
  const std::optional<Decision> decision = decide_automatic(config, sources, world);
  if (!decision) return;
  plan.is_automatic = decision->is_on;
  add_found(plan, options::kAuto, decision->is_on ? "True" : "False", decision->reason);
  if (!decision->is_on) return;
  if (!config.settings.is_given(options::kAugment)) {
    plan.pixels.train.augment = parse_augment("flip");
    add_found(plan, options::kAugment, "flip", "--auto: for fine-tuning");
  }
  const OptimizationConfig& length = config.optimization;
  if (!config.settings.is_given(options::kEpochs) && length.steps == 0 && length.time_limit_s == 0)
    add_found(plan, options::kEpochs, std::to_string(length.epochs),
              "--auto: for fine-tuning, the default");
}

// The learning rate where none is given, which suits the optimizer and the batch; without --auto,
// in a run with --untrained-model-path, it is the designer's.
double settled_rate(const TrainConfig& config, Plan& plan) {
  constexpr double kOfModern = 0.3;  // without its warm-up; measured in docs/recipes.md
  const OptimizationConfig& asked = config.optimization;
  const bool is_designers = !config.data.untrained_model_path.empty() && !plan.is_automatic;
  if (config.settings.is_given(options::kLearningRate) || is_designers || plan.uses_features)
    return asked.learning_rate;
  const KnownOptimizer& optimizer = *find_optimizer(asked.recipe.optimizer);
  const int images = asked.batch_size * asked.accumulate;
  const std::string text = formatted("%.2g", kOfModern * optimizer.modern_learning_rate(images));
  add_found(plan, options::kLearningRate, text,
            formatted("for %s and %d images a step", optimizer.name.data(), images));
  return std::stod(text);
}

// Whether only the head is trained and every image looks the same in every epoch.
bool uses_features(Freeze freeze, const Sources& sources, const Plan& plan) {
  return freeze == Freeze::kBackbone && !sources.train.is_stream() &&
         plan.pixels.train.augment == Augment::kNone && !draws(plan.pixels.train) &&
         !plan.division.has_own_train && !plan.network.with_output_layer;
}

// The command line rules out other reasons why --folds has no features to work with.
void check_folds(int folds, const Plan& plan) {
  if (folds == 0 || plan.uses_features) return;
  const TransformSpec& pixels = plan.pixels.train;
  throw Error(ErrorCode::kUserError,
              "--folds needs images whose features are the same in every epoch, but " +
                  (draws(pixels) ? "--transform-path has random operations (" +
                                       pixels.chain->whole.summary() +
                                       "): remove those whose names begin with Random"
                                 : std::string("the network ends in two linear layers, like one "
                                               "made by `kiln init-model --pretrained True`: give "
                                               "--model-name and --weights instead")) +
                  ", or leave --folds out.");
}

// Throws Error kUserError for options about training in epochs if there are none.
void check_recipe_of_features(const Settings& settings, const Plan& plan) {
  if (!plan.uses_features) return;
  for (const std::string_view name : options::kOfEpochsAlone)
    if (!settings.of(name).is_default())
      throw Error(
          ErrorCode::kUserError,
          "--" + std::string(name) +
              " applies to training in epochs, but with --freeze backbone and --augment none the "
              "last layer is fitted to features directly: use --augment flip, or leave --" +
              std::string(name) + " out.");
}

void warn_of_unused(const Settings& settings, Plan& plan) {
  if (!plan.uses_features) return;
  std::vector<std::string> unused;
  for (const std::string_view name : options::kOfEpochs)
    if (is_unusual(settings.of(name))) unused.push_back("--" + std::string(name));
  if (!unused.empty())
    plan.warnings.push_back(
        without_effect(unused,
                       "with --freeze backbone and --augment none the last layer is fitted to "
                       "features directly; --augment flip trains it in epochs"));
}

// Rank 0 holds the features of all images.
void check_feature_memory(const Sources& sources, const ImageModel& model, const World& world,
                          const Plan& plan) {
  constexpr double kShare = 0.5;  // share of the available memory
  if (!(plan.uses_features || plan.is_automatic) || !world.leads()) return;
  const auto count =
      static_cast<std::int64_t>(sources.train.samples.size() +
                                (sources.judged_out_of_fold ? 0 : sources.valid.samples.size()));
  const double needed = fit_memory(count, model.head()[0].tensor.size(1),
                                   static_cast<std::int64_t>(sources.num_classes()));
  const double limit = kShare * static_cast<double>(available_memory_bytes());
  if (needed <= limit) return;
  throw Error(
      ErrorCode::kUserError,
      (plan.is_automatic ? "With --auto True" : "With --freeze backbone and --augment none") +
          formatted(" the features of all %s images are kept in memory and take %s, more than half "
                    "of what is available: use --freeze backbone --augment flip, which trains the "
                    "last layer in epochs, or fewer images.",
                    grouped(count).c_str(), bytes_text(needed).c_str()));
}

// How many epochs the schedule has, by --epochs or --steps.
Length length_of(const OptimizationConfig& config, bool has_epochs, const Plan& plan) {
  Length length{.epochs = 1,
                .first_epochs = plan.is_automatic ? 1 : 0,
                .steps = config.steps,
                .steps_per_epoch = plan.division.steps_per_epoch};
  if (plan.uses_features) {
    length.steps = 0;
  } else if (config.steps == 0 || has_epochs) {
    length.epochs = config.epochs;
  } else {
    length.epochs = length.epochs_for_steps();
  }
  return length;
}

void check_steps(const OptimizationConfig& config, const Length& length) {
  const auto all = static_cast<long long>(length.steps_per_epoch) * length.epochs;
  if (length.steps <= all) return;
  throw Error(ErrorCode::kUserError,
              formatted("--steps is %lld, but --epochs %d has only %lld steps: give one of the "
                        "two, or more epochs.",
                        static_cast<long long>(config.steps), config.epochs, all));
}

// A collective if class weights are requested and the ranks have different images.
std::vector<double> class_weights_of(ClassWeights choice, const Sources& sources,
                                     const Division& division, World& world) {
  if (choice == ClassWeights::kNone) return {};
  const std::vector<long long> counts =
      counts_of_all(world, sources.train, sources.num_classes(),
                    division.has_own_train ? &division.train : nullptr);
  return judge_of(sources.train).class_weights(choice, counts, sources.train.samples.size());
}

// Leaves out class weights and the number of epochs, which depend on all ranks.
Recipe recipe_of(const OptimizationConfig& config, double learning_rate, int num_ranks,
                 Precision precision) {
  Recipe recipe;
  recipe.precision = precision;
  recipe.freeze = config.freeze;
  if (config.head_learning_rate)
    recipe.optimizer.head_rate = *config.head_learning_rate / learning_rate;
  recipe.optimizer.name = config.recipe.optimizer;
  recipe.optimizer.momentum = config.recipe.momentum;
  recipe.optimizer.weight_decay = config.recipe.weight_decay;
  recipe.optimizer.decays_norm_and_bias = config.recipe.decays_norm_and_bias;
  recipe.clip_norm = config.recipe.clip_norm;
  recipe.ema = config.recipe.ema;
  recipe.loss.label_smoothing = config.recipe.label_smoothing;
  recipe.mix = {config.recipe.mixup, config.recipe.cutmix,
                static_cast<std::uint64_t>(config.random_seed)};
  recipe.schedule.name = config.recipe.schedule;
  recipe.schedule.warmup_epochs = config.num_warmup_steps;
  recipe.schedule.peak = learning_rate * config.lr_scaling.of(num_ranks);
  return recipe;
}

// A learning rate that was not given, or scaled by another number of ranks, stays in effect when
// the run resumes; a given one is that of before, unless an earlier version of the program, which
// did not compare them, has saved the run.
void keep_rates(const SavedRun& saved, bool is_given, int num_ranks, Recipe& recipe) {
  if (!is_given || saved.machine.num_ranks != num_ranks || !saved.options_in_effect.empty())
    recipe.schedule.peak = saved.peak_learning_rate;
  if (saved.head_rate > 0) recipe.optimizer.head_rate = saved.head_rate;
}

// Of a run that resumes, what auto chose when it began. A collective.
PrecisionChoice precision_of(const PlanInputs& given, const Plan& plan, World& world) {
  const std::optional<Precision> asked = given.config.optimization.precision;
  const Device& device = given.machine.device;
  const ImageSize size = plan.pixels.train.output;
  const int side = std::max(size.width, size.height);
  const KnownNetwork* trained =
      plan.uses_features ? nullptr : find_network(plan.network.model_name);
  PrecisionChoice choice = agreed_precision(world, asked, device, side, trained);
  if (asked || !given.resume) return choice;
  const std::optional<Precision> saved = precision_named(given.resume->run.precision);
  if (saved == choice.precision) return choice;
  choice = agreed_precision(world, saved, device, side, trained);
  choice.reason = "auto: as in the checkpoint";
  return choice;
}

StopRule stop_rule_of(const OptimizationConfig& config, const Settings& settings,
                      const Sources& sources, const World& world, const Plan& plan) {
  const int ranks = plan.division.has_own_valid ? 1 : world.size();
  return {.length = length_of(config, settings.is_given(options::kEpochs), plan),
          .time_limit_s = plan.uses_features ? 0 : config.time_limit_s,
          .time_limit_word = settings.text(options::kTimeLimit),
          .patience = config.patience,
          .warmup_epochs = config.num_warmup_steps,
          .is_automatic = plan.is_automatic,
          .writes_checkpoints = plan.checkpoint.is_lasting(),
          .validation_batches = std::ceil(static_cast<double>(sources.valid.samples.size()) /
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

void add_size(Plan& plan) {
  const PixelPlan& pixels = plan.pixels;
  const ImageSize size = pixels.train.output;
  // The common size of all images cannot be given as --image-size: it need not be square, and
  // nothing is resized.
  const bool is_resized = pixels.train.short_side != 0;
  add_found(plan, options::kImageSize, is_resized ? std::to_string(size.height) : "",
            (is_resized ? "" : formatted("%dx%d, ", size.width, size.height)) + pixels.size_reason);
}

// A normalization that comes with the weights has no name that the option accepts.
void add_normalization(bool is_pretrained, Plan& plan) {
  const PixelPlan& pixels = plan.pixels;
  const bool has_word =
      pixels.normalization_name == "half" || pixels.normalization_name == "imagenet";
  add_found(plan, options::kNormalization, has_word ? pixels.normalization_name : "",
            !pixels.normalization_reason.empty() ? pixels.normalization_reason
            : is_pretrained                      ? "set by the pretrained weights"
                                                 : "the weights are not pretrained");
}

void add_machine(const RanksConfig& config, const Device& device, World& world, Plan& plan) {
  if (config.device == DeviceChoice::kAuto)
    add_found(plan, options::kDevice, device.is_cuda ? "cuda" : "cpu", device.description);
  const std::vector<int> threads = world.gather(at::get_num_threads());
  const bool equal =
      std::adjacent_find(threads.begin(), threads.end(), std::not_equal_to<>()) == threads.end();
  if (config.threads == 0)
    add_found(plan, options::kThreads, equal ? std::to_string(threads.front()) : "",
              equal ? "one per processor" : "differs between ranks");
  if (world.size() == 1 || (config.launch && *config.launch > 0)) return;
  const bool on_one_host = world.local_size() == world.size();
  const std::string count = std::to_string(world.size());
  add_found(plan, options::kRanks, on_one_host ? count : "",
            on_one_host ? "the processes of this run" : count + " on several hosts");
}

// Adds what the options left open. A collective.
void add_open(const PlanInputs& given, World& world, Plan& plan) {
  const TrainConfig& config = given.config;
  if (config.data.image_size == 0) add_size(plan);
  if (!config.data.fit)
    add_found(plan, options::kFit, fit_name(plan.pixels.train.fit),
              cut_text(plan.pixels.cut_away.value_or(0)));
  if (config.data.normalization == NormalizationChoice::kAuto)
    add_normalization(given.sources.spec().pretrained, plan);
  if (!config.optimization.precision)
    add_found(plan, options::kPrecision, precision_name(plan.precision.precision),
              plan.precision.reason);
  add_machine(config.ranks, given.machine.device, world, plan);
  if (plan.stop.time_limit_s > 0)
    add_found(plan, options::kEpochs, std::to_string(plan.stop.length.epochs),
              "maximum: --time-limit decides after the first epoch");
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
  const OptimizationConfig& optimization = config.optimization;
  const Sources& sources = given.sources;
  Plan plan;
  plan.settings = config.settings;
  for (const Setting& one : found) plan.settings = plan.settings.replaced(one);
  plan.network = model_options(sources);
  plan.pixels = std::move(pixels);
  plan.division = std::move(division);
  settle_automatic(config, sources, world, plan);
  plan.uses_features = uses_features(optimization.freeze, sources, plan);
  plan.precision = precision_of(given, plan, world);
  const double learning_rate = settled_rate(config, plan);
  warn_of_unused(config.settings, plan);
  plan.loading = loading_of(config, given.machine);
  plan.recipe =
      recipe_of(optimization, learning_rate, config.ranks.exchange.num_summed_ranks(world.size()),
                plan.precision.precision);
  world.agree([&] {
    if (plan.division.steps_per_epoch == 0 && !plan.uses_features)
      throw Error(ErrorCode::kInvalidDataset,
                  "The training dataset, or a shard of it, has fewer images than one step needs. "
                  "Use a smaller --batch-size or --accumulate, or more images.");
    check_folds(optimization.folds, plan);
    judge_of(sources.train)
        .check(sources, plan.uses_features && optimization.class_weights != ClassWeights::kNone);
    check_recipe_of_features(config.settings, plan);
    check_feature_memory(sources, given.model, world, plan);
    check_step_memory(given.machine.device, given.model, world, plan, plan.warnings);
  });
  plan.recipe.loss.class_weights =
      class_weights_of(optimization.class_weights, sources, plan.division, world);
  plan.checkpoint = config.checkpoint;
  plan.stop = stop_rule_of(optimization, config.settings, sources, world, plan);
  plan.recipe.schedule.steps_per_epoch = static_cast<int>(plan.division.steps_per_epoch);
  const Length& length = plan.stop.length;
  plan.recipe.schedule.epochs = length.epochs;
  if (length.steps > 0 && !config.settings.is_given(options::kEpochs) &&
      optimization.time_limit_s == 0)
    plan.recipe.schedule.epochs =
        static_cast<double>(length.steps) / static_cast<double>(length.steps_per_epoch);
  world.agree([&] { check_steps(optimization, length); });
  if (given.resume)
    keep_rates(given.resume->run, config.settings.is_given(options::kLearningRate), world.size(),
               plan.recipe);
  plan.learning_rate = learning_rate;
  plan.exchange = config.ranks.exchange;
  plan.num_training_ranks = plan.exchange.num_training_ranks(world.size());
  plan.global_batch =
      std::int64_t{plan.num_training_ranks} * plan.loading.batch_size * plan.loading.accumulate;
  add_open(given, world, plan);
  plan.texts_in_effect =
      texts_in_effect(config.settings, plan.settings, length.steps > 0 ? length.epochs : 0);
  return plan;
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
