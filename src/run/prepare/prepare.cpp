#include "run/prepare/prepare.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "model/weights/model_weights.h"
#include "model/weights/resolve_weights.h"
#include "model/weights/starting_weights.h"
#include "parallel/processors/binding.h"
#include "parallel/processors/compute_threads.h"
#include "run/inputs/split_inputs.h"
#include "run/inputs/stream_inputs.h"
#include "run/prepare/automatic_plan.h"
#include "run/prepare/class_counts.h"
#include "run/prepare/rank_agreement.h"
#include "run/prepare/run_recipe.h"
#include "run/prepare/shared_images.h"
#include "run/prepare/step_fits.h"
#include "run/prepare/valid_stream.h"
#include "run/time_limit.h"
#include "train/features/head_fit.h"
#include "train/replicas.h"

namespace kiln {
namespace {

void take_weights(ImageModel& model, TrainingInputs& inputs) {
  const bool trained = inputs.weights->trained;
  inputs.weights_text = load_weights(model, inputs.untrained.spec.model_name, inputs.train.classes,
                                     *std::exchange(inputs.weights, std::nullopt)) +
                        (trained ? "; momentum and schedule start over" : "");
}

// Loads the weights of the untrained model if they are pretrained, or else only checks them.
void use_untrained(ImageModel& model, const std::string& where, const TrainingInputs& inputs) {
  const ModelSpec& spec = inputs.untrained.spec;
  const StateDict& state = inputs.untrained.state;
  if (spec.pretrained)
    load_pretrained(model, state, where);
  else
    check_untrained(model, state, where);
}

// Initializes the weights from the seed, then loads given weights, if any. Draws the same random
// numbers in either case.
std::unique_ptr<ImageModel> build_model(const TrainConfig& config, TrainingInputs& inputs,
                                        const Device& device) {
  const ModelSpec& spec = inputs.untrained.spec;
  at::manual_seed(static_cast<std::uint64_t>(config.optimization.random_seed));
  auto model = make_image_model(model_options(inputs));
  if (inputs.weights)
    take_weights(*model, inputs);
  else if (!config.data.untrained_model_path.empty())
    use_untrained(*model, config.data.untrained_model_path + "/" + spec.model_file, inputs);
  model->prepare(torch_device(device));
  return model;
}

// `config` with only the paths that this rank reads itself.
DataConfig part_of_rank(const DataConfig& config, bool reads_images, const World& world) {
  DataConfig part = config;
  const std::string place = DataConfig::kRankPlace;
  const std::size_t at = part.train_path.find(place);
  if (config.has_train_shard && at != std::string::npos)
    part.train_path.replace(at, place.size(), std::to_string(world.local_rank()));
  if (!world.leads()) part.network.weights.clear();
  if (!reads_images) {
    part.train_path.clear();
    part.valid_path.clear();
    part.transform_path.clear();
  }
  return part;
}

// Identifies the network and its initial weights.
std::string fingerprint_of_model(const TrainingInputs& inputs) {
  std::string print = fingerprint_of(inputs.untrained);
  if (inputs.weights) print.append(" ").append(fingerprint_of(*inputs.weights));
  return print;
}

// Tells the other ranks about weights that only rank 0 has read.
void share_weights(World& world, const DataConfig& config, TrainingJob& job) {
  if (config.network.weights.empty()) return;
  job.model_fingerprint = world.broadcast(job.model_fingerprint);
  const Normalization normalization = world.broadcast(job.inputs.normalization);
  if (!world.leads()) take_normalization(normalization, job.inputs);
}

void check_sync_batch_norm(const RanksConfig& config, const TrainingInputs& inputs) {
  if (config.sync_batch_norm && inputs.untrained.spec.memory_efficient)
    throw Error(ErrorCode::kUserError,
                "--sync-batch-norm cannot be used with a memory-efficient DenseNet, whose "
                "recomputation sees only this rank's batch: create the model without "
                "--memory-efficient, or omit --sync-batch-norm.");
}

Dataset copy_of(const Dataset& set) {
  Dataset copy = dataset_of(to_bytes(set, SetParts::kList), SetParts::kList);
  copy.root = set.root;
  copy.name = set.name;
  open_archives(copy);
  return copy;
}

bool draws(const TransformSpec& pixels) {
  return pixels.chain && pixels.chain->whole.is_random();
}

// Whether only the head is trained and every image looks the same in every epoch.
bool uses_features(const TrainingJob& job) {
  return job.config.optimization.freeze == Freeze::kBackbone && !job.inputs.train.is_stream() &&
         job.config.data.augment == Augment::kNone && !draws(job.inputs.pixels) &&
         !job.config.data.has_train_shard && !model_options(job.inputs).with_output_layer;
}

// The command line rules out other reasons why --folds has no features to work with.
void check_folds(const TrainingJob& job) {
  if (job.config.optimization.folds == 0 || job.uses_features) return;
  const TransformSpec& pixels = job.inputs.pixels;
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

// Rank 0 holds the features of all images.
void check_feature_memory(const TrainingJob& job) {
  constexpr double kShare = 0.5;  // share of the available memory
  if (!(job.uses_features || job.is_automatic) || !job.world.leads()) return;
  const TrainingInputs& inputs = job.inputs;
  const auto num_images = static_cast<std::int64_t>(
      inputs.train.samples.size() + (inputs.judged_out_of_fold ? 0 : inputs.valid.samples.size()));
  const double needed = fit_memory(num_images, job.model->head()[0].tensor.size(1),
                                   static_cast<std::int64_t>(inputs.train.classes.size()));
  const double limit = kShare * static_cast<double>(available_memory_bytes());
  if (needed <= limit) return;
  throw Error(
      ErrorCode::kUserError,
      (job.is_automatic ? "With --auto True" : "With --freeze backbone and --augment none") +
          formatted(" the features of all %s images are kept in memory and take %s, more than half "
                    "of what is available: use --freeze backbone --augment flip, which trains the "
                    "last layer in epochs, or fewer images.",
                    grouped(num_images).c_str(),
                    bytes_text(static_cast<long long>(needed)).c_str()));
}

// An earlier model of the same run, which was resumed, is none that anybody would miss.
void tell_replaced_model(const TrainingJob& job) {
  const std::string& folder = job.config.output.trained_model_path;
  if (!job.world.leads() || (job.resume && holds_model_of(folder, job.resume->run.started))) return;
  if (const std::string model = description_of_model(folder); !model.empty())
    job.log.info("This run will replace the model in '" + folder + "': " + model + ".");
}

// Reads what this rank reads itself, and checks that its outputs can be written. Throws all
// problems together. `valid_stream` is the validation stream, if there is one.
void read_own_inputs(const OpenFile& valid_stream, TrainingJob& job) {
  const TrainConfig& config = job.config;
  World& world = job.world;
  TrainingInputs& inputs = job.inputs;
  const bool is_shard = config.data.has_train_shard;
  const bool reads_images = world.leads() || is_shard;
  world.agree([&] {
    Problems problems;
    DataConfig part = part_of_rank(config.data, reads_images, world);
    problems.collect([&] {
      std::string& weights = part.network.weights;
      const std::string given = std::exchange(weights, "");
      if (given.empty()) return;
      weights = resolve_weights(given, /*sha256=*/"", job.log);
      add_weights_choice(given, weights, job);
    });
    inputs = read_training_inputs(part, problems,
                                  static_cast<std::uint64_t>(config.optimization.random_seed),
                                  scan_plan(job.loader_threads.first, job.log), valid_stream);
    if (reads_images && problems.empty())
      problems.collect([&] { choose_transforms(config.data, inputs); });
    job.model_fingerprint = fingerprint_of_model(inputs);  // before build_model() takes the weights
    if (reads_images && problems.empty() && !is_shard)
      problems.collect([&] { job.model = build_model(config, inputs, job.device); });
    problems.collect([&] {
      check_batch_size(config.optimization, inputs, is_shard ? 1 : job.num_training_ranks());
    });
    problems.collect([&] { check_sync_batch_norm(config.ranks, inputs); });
    problems.collect([&] { check_stream_options(config, inputs, world.size()); });
    if (world.leads())
      problems.collect(
          [&] { job.output.emplace(prepare_model_output(config.output.trained_model_path)); });
    if (const std::string& path = config.insight.trace_path; !path.empty())
      problems.collect(
          [&] { job.trace = std::make_unique<RunTrace>(path, world.rank(), job.log); });
    if (world.leads() && !config.output.explain.empty())
      problems.collect([&] { job.explanations.emplace(config.output.explain); });
    problems.throw_if_any();
  });
}

// Reads the inputs, shares them between the ranks, and then decides how to train on them.
void read_inputs(TrainingJob& job) {
  const TrainConfig& config = job.config;
  World& world = job.world;
  TrainingInputs& inputs = job.inputs;
  const OpenFile valid_stream = spool_valid_stream(world, config, job.log);
  read_own_inputs(valid_stream, job);
  if (const std::string& path = config.data.untrained_model_path; !path.empty())
    require_one_model(world, "--untrained-model-path '" + path + "'", job.model_fingerprint);
  share_weights(world, config.data, job);
  share_datasets(world, config.data, inputs);
  if (config.optimization.folds > 0 && inputs.valid.samples.empty()) {
    inputs.judged_out_of_fold = true;
    world.agree([&] { inputs.valid = copy_of(inputs.train); });
  }
  divide_images(world, config, inputs);
  world.agree([&] {
    if (!job.model) job.model = build_model(config, inputs, job.device);
  });
  settle_automatic(job);
  job.uses_features = uses_features(job);
  world.agree([&] {
    check_folds(job);
    check_recipe_of_features(job);
    check_feature_memory(job);
    check_step_memory(job);
  });
  job.train_fingerprint = fingerprint_of(inputs.train);
  job.valid_fingerprint = fingerprint_of(inputs.valid);
  inputs.untrained.state = {};
  inputs.weights.reset();
}

void check_steps(const TrainingJob& job) {
  const OptimizationConfig& config = job.config.optimization;
  const auto all = static_cast<long long>(job.inputs.steps_per_epoch) * job.asked_epochs();
  if (job.uses_features || config.steps <= all) return;
  throw Error(ErrorCode::kUserError,
              formatted("--steps is %lld, but --epochs %d has only %lld steps: give one of the "
                        "two, or more epochs.",
                        static_cast<long long>(config.steps), config.epochs, all));
}

// A collective if class weights are requested and the ranks have different images.
std::vector<double> class_weights_of(const TrainingJob& job) {
  const TrainingInputs& inputs = job.inputs;
  const ClassWeights choice = job.config.optimization.class_weights;
  if (choice == ClassWeights::kNone) return {};
  return weights_of_classes(
      choice, counts_of_all(job.world, inputs.train, inputs.train.classes.size(),
                            job.config.data.has_train_shard ? &inputs.train_shard : nullptr));
}

void prepare_loading(TrainingJob& job) {
  const TrainConfig& config = job.config;
  TrainingInputs& inputs = job.inputs;
  const at::Device place = torch_device(job.device);
  const auto open_uploader = [&](const TransformSpec& pixels) {
    return std::make_unique<DeviceUploader>(place, pixels.output, config.optimization.batch_size,
                                            inputs.normalization);
  };
  job.uploader = open_uploader(inputs.pixels);
  if (inputs.valid_pixels.output != inputs.pixels.output || !inputs.sizes.empty())
    job.valid_uploader = open_uploader(inputs.valid_pixels);
  job.world.agree([&] {
    job.cache = job.uses_features
                    ? CacheChoice{.reason = "off, since each image is read once"}
                    : choose_cache(config.data, inputs, cache_limit_bytes(job.world.local_size()));
  });
  job.loaders = std::make_unique<TrainingLoaders>(
      config, inputs, job.loader_threads, job.cache,
      host_batch_layout(
          place, inputs.normalization,
          [device = job.device](std::size_t bytes) { return pinned_memory(device, bytes); }),
      [&log = job.log](const std::string& text) { log.warning(text); },
      job.trace ? job.trace->timeline().get() : nullptr);
}

// With --sync-batch-norm, makes BatchNorm sum over all ranks.
void synchronize_batch_norm(const TrainingJob& job, ImageModel& model) {
  if (!job.batch_norm_lane) return;
  model.synchronize_batch_norm(
      {job.world.rank(), job.world.size(), [lane = job.batch_norm_lane.get()](at::Tensor& sums) {
         lane->wait(lane->all_reduce(sums));
       }});
}

// For a GPU. On a CPU, results are reproducible without it.
void make_deterministic() {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicCuDNN(true);
  context.setDeterministicFillUninitializedMemory(false);  // it is never read
}

}  // namespace

ModelOptions model_options(const TrainingInputs& inputs) {
  const ModelSpec& spec = inputs.untrained.spec;
  return {.model_name = spec.model_name,
          .num_classes = static_cast<int>(inputs.train.classes.size()),
          .with_output_layer = spec.pretrained,
          .memory_efficient = spec.memory_efficient,
          .zero_init_residual = spec.zero_init_residual};
}

std::unique_ptr<ImageModel> copied_model(const ImageModel& model, const TrainingJob& job) {
  std::unique_ptr<ImageModel> copy = make_image_model(model_options(job.inputs));
  copy->prepare(torch_device(job.device));
  synchronize_batch_norm(job, *copy);
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> from = model.state(), to = copy->state();
  for (std::size_t i = 0; i < to.size(); ++i) to[i].tensor.copy_(from[i].tensor);
  return copy;
}

std::unique_ptr<TrainingJob> prepare(const TrainConfig& given, World& world, Log& log) {
  auto job = std::make_unique<TrainingJob>(given, world, log);
  const TrainConfig& config = job->config;
  world.enter("starting", /*patient=*/true);
  world.agree([&] { job->device = choose_device(config.ranks.device, world.local_rank()); });
  if (job->device.is_cuda && config.ranks.deterministic) make_deterministic();
  require_one_job(world, config.effective_options, job->device);
  world.agree([&] { check_exchange(config.ranks.exchange, world.size(), job->device); });
  job->precision = agreed_precision(world, config.optimization.precision, job->device);
  set_tf32(job->precision.precision);
  find_checkpoint(*job);
  if (job->is_done()) return job;
  tell_replaced_model(*job);
  job->bound_to = bind_to_own_cores(world, job->device.numa_node);
  const int num_processors = processors_of_this_rank(world);
  job->loader_threads =
      choose_loader_threads(config.data.loader_threads, num_processors, job->device.is_cuda);
  const int num_threads = job->resume ? job->resume->run.machine.num_threads : num_processors;
  world.agree(
      [&] { use_compute_threads(config.ranks.threads > 0 ? config.ranks.threads : num_threads); });

  world.enter("reading the data", /*patient=*/true);
  read_inputs(*job);
  const int num_ranks = config.ranks.exchange.num_summed_ranks(world.size());
  job->recipe = recipe_of(config.optimization, job->inputs, num_ranks, job->precision.precision);
  job->recipe.loss.class_weights = class_weights_of(*job);
  job->recipe.schedule.epochs = job->asked_epochs();
  job->inputs.num_epochs = job->recipe.schedule.epochs;
  world.agree([&] { check_steps(*job); });
  check_resumed_inputs(*job);
  world.agree([&] {
    if (world.leads()) write_split(config.output, job->inputs, log);
  });
  add_choices(*job);
  return job;
}

std::unique_ptr<TrainState> make_state(TrainingJob& job) {
  const RanksConfig& config = job.config.ranks;
  job.communicator =
      join_communicator(job.world, config, job.config.output.log_path, job.device, job.log);
  broadcast_tensors(job.model->state(), *job.communicator);
  if (job.trace) job.communicator->trace(job.trace->timeline());
  if (config.sync_batch_norm && job.world.size() > 1)
    job.batch_norm_lane = job.communicator->second_lane("BatchNorm all-reduce");
  synchronize_batch_norm(job, *job.model);
  auto state =
      std::make_unique<TrainState>(std::move(job.model), job.recipe,
                                   BucketPlan{.bfloat16 = config.bfloat16_gradients,
                                              .sums_ranks = config.exchange.kind->sums_ranks},
                                   *job.communicator);
  state->random_seed = static_cast<std::uint64_t>(job.config.optimization.random_seed);
  state->progress.early_stopping.patience = job.config.optimization.patience;
  if (job.resume) restore(job, *state);
  if (state->progress.time_plan) apply_time_plan(job, *state->progress.time_plan);
  state->exchange =
      make_exchange(config.exchange, job.recipe.optimizer, *state, job.world, *job.communicator);
  prepare_loading(job);  // last: the cache takes a share of the remaining memory
  return state;
}

}  // namespace kiln
