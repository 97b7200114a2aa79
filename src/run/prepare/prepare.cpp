#include "run/prepare/prepare.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "data/dataset/image_bytes.h"
#include "data/stream/record_stream.h"
#include "model/operators/fused_norm.h"
#include "model/weights/fetch_file.h"
#include "model/weights/starting_weights.h"
#include "parallel/processors/contention.h"
#include "parallel/processors/processors.h"
#include "run/checkpoint/resume.h"
#include "run/inputs/sources.h"
#include "run/inputs/stream_inputs.h"
#include "run/prepare/plan.h"
#include "run/prepare/plan_warnings.h"
#include "run/prepare/rank_agreement.h"
#include "run/prepare/repeat_file.h"
#include "run/prepare/shared_sources.h"
#include "train/features/neighbors.h"
#include "train/precision.h"
#include "train/state.h"

namespace kiln {
namespace {

// Initializes the weights from the seed, then loads given weights, if any. Draws the same random
// numbers in either case. Those of an untrained model are only checked unless it is pretrained.
std::unique_ptr<ImageModel> build_model(const std::string& untrained_model_path, std::int64_t seed,
                                        const Device& device, Sources& sources) {
  at::manual_seed(static_cast<std::uint64_t>(seed));
  auto model = make_image_model(model_options(sources));
  if (sources.weights) {
    const bool trained = sources.weights->trained;
    sources.weights_text = load_weights(*model, sources.spec().model_name, sources.train.classes,
                                        *std::exchange(sources.weights, std::nullopt)) +
                           (trained ? "; momentum and schedule start over" : "");
  } else if (!untrained_model_path.empty()) {
    const std::string where = untrained_model_path + "/" + sources.spec().model_file;
    if (sources.spec().pretrained)
      load_pretrained(*model, sources.untrained.state, where);
    else
      check_untrained(*model, sources.untrained.state, where);
  }
  model->prepare(torch_device(device));
  return model;
}

// `config` with only what this rank reads itself. A run that resumes keeps what auto chose.
DataConfig part_of_rank(const DataConfig& config, const std::optional<ResumePoint>& resume,
                        const World& world) {
  DataConfig part = config;
  if (resume) part.records.exif = value_named<Exif>(kExifNames, resume->run.exif);
  if (resume) part.fit = value_named<Fit>(kFitNames, resume->run.fit);
  const std::string place = DataConfig::kRankPlace;
  const std::size_t at = part.train_path.find(place);
  if (config.has_train_shard && at != std::string::npos)
    part.train_path.replace(at, place.size(), std::to_string(world.local_rank()));
  if (!world.leads()) part.network.weights.clear();
  if (!world.leads() && !config.has_train_shard) {
    part.train_path.clear();
    part.valid_path.clear();
    part.transform_path.clear();
  }
  return part;
}

// The device, which supports the precision asked for; all ranks are of one job. A collective.
Machine choose_machine(const TrainConfig& config, World& world) {
  const RanksConfig& ranks = config.ranks;
  Machine machine;
  world.agree([&] {
    machine.device = choose_device(ranks.device, world.local_rank());
    require_possible(config.optimization.precision, units_of(machine.device));
  });
  // On a CPU, results are reproducible without it.
  if (machine.device.is_cuda && ranks.deterministic) {
    at::Context& context = at::globalContext();
    context.setDeterministicAlgorithms(true, /*warn_only=*/false);
    context.setDeterministicCuDNN(true);
    context.setDeterministicFillUninitializedMemory(false);  // it is never read
  }
  require_one_job(world, config.settings, machine.device);
  world.agree([&] { check_exchange(ranks.exchange, world.size(), machine.device); });
  return machine;
}

// Sets this rank's processors and threads. Unless compute threads are given, a run that resumes
// keeps the number of before, for the same bits, but no more than one per processor. A collective.
void use_processors(const TrainConfig& config, const std::optional<ResumePoint>& resume,
                    World& world, Machine& machine) {
  if (config.ranks.bind)
    machine.num_bound_cpus = bind_to_own_cores(world, machine.device.numa_node);
  else
    keep_threads_apart();
  const int num_processors = processors_of_this_rank(world);
  machine.loader_threads =
      choose_loader_threads(config.data.loader_threads, num_processors, machine.device.is_cuda);
  int num_threads = config.ranks.threads;
  if (num_threads == 0 && resume)
    num_threads = std::min(resume->run.machine.num_threads, num_processors);
  world.agree([&] { use_compute_threads(num_threads > 0 ? num_threads : num_processors); });
}

// What --model-name auto is, if the name of --weights does not tell: of the networks that so many
// images can train, the largest that has time to see each 30 times.
Setting network_for(const DataConfig& data, double time_limit_s, bool has_gpu) {
  struct Candidate {
    const char* name;
    std::size_t images;   // that it needs
    double core_seconds;  // of a processor, to train on an image of 224 pixels so often
  };
  constexpr std::array kCandidates{Candidate{"resnet50", 20'000, 10}, Candidate{"resnet18", 0, 3},
                                   Candidate{"mobilenet_v3_large", 0, 1.5}};
  const double cores = has_gpu ? 100 : at::get_num_threads();
  const std::string& path = data.split.data_path.empty() ? data.train_path : data.split.data_path;
  if (is_stream_path(path))
    throw Error(ErrorCode::kUserError,
                "--model-name auto cannot count the images of a stream: name a network.");
  const std::size_t images = read_dataset(path, "Training dataset").samples.size();
  const ImageSize size = data.image_size.height > 0 ? data.image_size : ImageSize{224, 224};
  std::string name, reason = grouped(static_cast<long long>(images)) + " images";
  if (data.network.weights.empty()) reason += ", no weights";
  for (const Candidate& candidate : kCandidates) {
    if (images < candidate.images) continue;
    if (!name.empty()) reason += ", no time for " + name;
    name = candidate.name;
    const double seconds =
        candidate.core_seconds / cores * static_cast<double>(size.num_pixels()) / (224 * 224);
    if (time_limit_s == 0 || static_cast<double>(images) * seconds <= time_limit_s) break;
  }
  return found_for_train(options::kModelName, name, reason);
}

// What was read, and where results will go.
struct Read {
  Sources sources;
  PixelPlan pixels;
  Division division;
  std::unique_ptr<ImageModel> model;
  Fingerprints fingerprints;
  std::optional<OutputFolder> model_folder;
  std::optional<ExplanationFolder> explanations;
  std::unique_ptr<RunTrace> trace;
  std::vector<Setting> found;
};

// Reads what this rank reads itself, and checks that its outputs can be written. Throws all
// problems together. `valid_stream` is the validation stream, if there is one. Rank 0 chooses the
// batch size that is auto.
Read read_own(TrainConfig& config, const DataConfig& part, const std::optional<ResumePoint>& resume,
              const OpenFile& valid_stream, const Machine& machine, World& world, Log& log) {
  Read read;
  Sources& sources = read.sources;
  const bool is_shard = part.has_train_shard, reads_images = world.leads() || is_shard;
  OptimizationConfig& optimization = config.optimization;
  const int num_ranks = is_shard ? 1 : config.ranks.exchange.num_training_ranks(world.size());
  world.agree([&] {
    Problems problems;
    DataConfig own = part;
    problems.collect([&] {
      std::string& weights = own.network.weights;
      const std::string given = std::exchange(weights, "");
      if (given.empty()) return;
      weights = resolve_weights(given, /*sha256=*/"", own.network.model_name, log);
      if (std::optional<Setting> found = found_weights(given, weights))
        read.found.push_back(std::move(*found));
    });
    sources = read_sources(own, problems, static_cast<std::uint64_t>(optimization.random_seed),
                           scan_plan(machine.loader_threads.first, log), valid_stream);
    if (reads_images && problems.empty())
      problems.collect([&] {
        read.pixels = choose_pixels(own, sources, resume ? resume->run.image_size : std::nullopt);
        if (freezes_all_norms(optimization.freeze)) read.pixels.smallest_batch = 1;
      });
    // Before build_model() moves the weights out.
    read.fingerprints.model = fingerprint_of(sources.untrained);
    if (sources.weights) read.fingerprints.model += " " + fingerprint_of(*sources.weights);
    if (reads_images && problems.empty() && !is_shard)
      problems.collect([&] {
        read.model = build_model(own.untrained_model_path, optimization.random_seed, machine.device,
                                 sources);
        read.model->freeze(optimization.freeze);
      });
    if (problems.empty() && optimization.layer_decay != 1 &&
        known_network(sources.spec().model_name).family().has_batch_norm)
      problems.add(Error(ErrorCode::kUserError,
                         "--layer-decay is for ConvNeXt and vision transformers, but the network "
                         "is " +
                             sources.spec().model_name + ": leave it out."));
    problems.collect([&] {
      const std::size_t images = sources.train.samples.size();
      if (optimization.batch_size == 0 && world.leads())
        optimization.batch_size =
            automatic_batch(machine.device, read.model.get(), world, read.pixels.train.output,
                            static_cast<double>(images) / num_ranks / optimization.accumulate);
      check_batch_size(optimization, static_cast<std::int64_t>(images), read.pixels.smallest_batch,
                       num_ranks);
    });
    problems.collect([&] {
      if (config.ranks.sync_batch_norm && sources.spec().memory_efficient)
        throw Error(ErrorCode::kUserError,
                    "--sync-batch-norm cannot be used with a memory-efficient DenseNet, which sees "
                    "only this rank's batch: omit it, or create the model without "
                    "--memory-efficient.");
    });
    problems.collect([&] { check_stream_options(config, sources, world.size()); });
    if (world.leads())
      problems.collect([&] {
        read.model_folder.emplace(prepare_model_output(config.output.trained_model_path));
      });
    if (const std::string& path = config.output.trace_path; !path.empty())
      problems.collect([&] { read.trace = std::make_unique<RunTrace>(path, world.rank(), log); });
    if (world.leads() && !config.output.explain.empty())
      problems.collect([&] { read.explanations.emplace(config.output.explain); });
    problems.throw_if_any();
  });
  return read;
}

// A run that resumes keeps its normalization: what the weights say of theirs may lie beside them,
// so it is not part of their fingerprint, and --normalization may be auto.
void keep_normalization(const SavedRun& saved, PixelPlan& pixels) {
  Normalization kept;
  if (saved.mean.size() != kept.mean.size() || saved.std.size() != kept.std.size()) return;
  std::ranges::copy(saved.mean, kept.mean.begin());
  std::ranges::copy(saved.std, kept.std.begin());
  if (kept == pixels.normalization) return;
  set_normalization(kept, pixels);
  pixels.normalization_reason = "as before";
}

// Reads the sources, and shares them between the ranks. A collective.
Read read_and_share(TrainConfig& config, const std::optional<ResumePoint>& resume,
                    const OpenFile& valid_stream, const Machine& machine, World& world, Log& log) {
  DataConfig part = part_of_rank(config.data, resume, world);
  std::optional<Setting> network;
  if (std::string& name = part.network.model_name; name == kAutoNetwork)
    name = world.from_leader([&] {
      network = resume
                    ? found_for_train(options::kModelName, resume->run.model, "as before",
                                      Origin::kCheckpoint)
                    : network_for(part, config.optimization.time_limit_s, machine.device.is_cuda);
      return network->text;
    });
  int& batch = config.optimization.batch_size;
  const bool is_auto_batch = batch == 0;
  if (is_auto_batch && resume)
    batch = std::atoi(value_of(resume->run.options_in_effect, options::kBatchSize).c_str());
  Read read = read_own(config, part, resume, valid_stream, machine, world, log);
  if (network) read.found.push_back(*std::move(network));
  if (is_auto_batch) {
    batch = world.broadcast(batch);
    read.found.push_back(found_for_train(options::kBatchSize, std::to_string(batch),
                                         resume                   ? "as before"
                                         : machine.device.is_cuda ? "by images and GPU memory"
                                                                  : "by the number of images"));
  }
  Sources& sources = read.sources;
  if (const std::string& path = config.data.untrained_model_path; !path.empty())
    require_one_model(world, "--untrained-model-path '" + path + "'", read.fingerprints.model);
  if (!config.data.network.weights.empty()) {  // which only rank 0 has read
    read.fingerprints.model = world.broadcast(read.fingerprints.model);
    const Normalization normalization = world.broadcast(read.pixels.normalization);
    if (!world.leads()) set_normalization(normalization, read.pixels);
  }
  if (resume) keep_normalization(resume->run, read.pixels);
  share_sources(world, config.data, sources, read.pixels);
  if (config.optimization.folds > 0 && sources.valid.samples.empty()) {
    sources.judged_out_of_fold = true;
    world.agree([&] {
      sources.valid = dataset_of(to_bytes(sources.train));
      sources.valid.root = sources.train.root;
      sources.valid.name = sources.train.name;
      open_archives(sources.valid);
    });
  }
  read.division = divide_images(world, config, sources);
  world.agree([&] {
    if (!read.model)
      read.model = build_model(config.data.untrained_model_path, config.optimization.random_seed,
                               machine.device, sources);
  });
  read.fingerprints.train = fingerprint_of(sources.train);
  read.fingerprints.valid = fingerprint_of(sources.valid);
  sources.untrained.state = {};
  sources.weights.reset();
  return read;
}

// With --sync-batch-norm, makes BatchNorm sum over all ranks.
void synchronize_batch_norm(const Run& run, ImageModel& model) {
  if (!run.batch_norm_lane) return;
  model.synchronize_batch_norm(
      {run.world.rank(), run.world.size(), [lane = run.batch_norm_lane.get()](at::Tensor& sums) {
         lane->wait(lane->all_reduce(sums));
       }});
}

// With KILN_FUSED_NORM=1, if that computes what LibTorch does on the GPUs of all ranks.
void fuse_norms(Run& run) {
  const Device& device = run.machine.device;
  if (!device.is_cuda) return;
  const bool is_wanted = environment("KILN_FUSED_NORM") == "1";
  const std::vector<std::string> faults = run.world.gather(
      is_wanted ? fused_norm_fault(torch_device(device), type_of(run.plan.precision.precision))
                : "KILN_FUSED_NORM is not 1 on every rank");
  const auto fault = std::ranges::find_if(faults, [](const auto& text) { return !text.empty(); });
  if (fault == faults.end())
    run.model->fuse_norms();
  else if (is_wanted && run.world.leads())
    run.console.warning("BatchNorm is LibTorch's, as Kiln's own kernels cannot be used: " + *fault);
}

// Every rank has rank 0's weights afterwards.
void connect(const RanksConfig& config, Run& run) {
  run.communicator = join_communicator(run.world, config, run.config.output.log_path,
                                       run.machine.device, run.console);
  broadcast_tensors(run.model->state(), *run.communicator);
  if (run.trace) run.communicator->trace(run.trace->timeline());
  if (run.config.ranks.sync_batch_norm && run.world.size() > 1)
    run.batch_norm_lane = run.communicator->second_lane("BatchNorm all-reduce");
  synchronize_batch_norm(run, *run.model);
  fuse_norms(run);
}

// The state at the first step, or that of the checkpoint.
void make_state(Run& run) {
  const ExchangePlan& exchange = run.config.ranks.exchange;
  run.state = std::make_unique<TrainState>(std::move(run.model), run.plan.recipe,
                                           BucketPlan{.sums_ranks = exchange.kind->sums_ranks},
                                           *run.communicator);
  TrainState& state = *run.state;
  state.random_seed = run.plan.loading.seed;
  state.progress.early_stopping.patience = run.plan.stop.patience;
  if (run.resume) restore(run);
  state.exchange =
      make_exchange(exchange, run.plan.recipe.optimizer, state, run.world, *run.communicator);
}

// Last, since the cache takes a share of the remaining memory.
void open_loaders(const DataConfig& config, Run& run) {
  const Plan& plan = run.plan;
  const at::Device place = torch_device(run.machine.device);
  const auto uploader_of = [&](ImageSize size) {
    return std::make_shared<DeviceUploader>(place, size, plan.loading.batch_size,
                                            plan.pixels.normalization);
  };
  const ImageSize train_size = plan.pixels.train.output, valid_size = plan.pixels.valid.output;
  run.train_uploader = uploader_of(train_size);
  run.valid_uploader = valid_size == train_size ? run.train_uploader : uploader_of(valid_size);
  const auto& [epochs, first_epochs, steps, steps_per_epoch] = plan.stop.length;
  run.valid_uploader->expect(epochs * static_cast<std::int64_t>(run.num_valid_images()) /
                             plan.global_batch * plan.loading.accumulate);
  run.train_uploader->expect((steps > 0 ? steps : epochs * steps_per_epoch) *
                             plan.loading.accumulate);
  const std::size_t num_classes = run.sources.num_classes();
  run.train_task = task_of(run.sources.train.labels.sets, num_classes, place);
  run.valid_task = task_of(run.sources.valid.labels.sets, num_classes, place);
  run.world.agree([&] {
    run.cache = plan.uses_features ? CacheChoice{.reason = "off, since each image is read once"}
                                   : choose_cache(config, run.sources, plan.pixels,
                                                  cache_limit_bytes(run.world.local_size()));
  });
  run.loaders = std::make_unique<TrainingLoaders>(
      plan.loading, run.sources, plan.pixels, plan.division, run.cache,
      host_batch_layout(place, plan.pixels.normalization,
                        [device = run.machine.device](std::size_t bytes) {
                          return pinned_memory(device, bytes);
                        }),
      [&log = run.console](const std::string& text) { log.warning(text); },
      run.trace ? run.trace->timeline().get() : nullptr);
}

// Logs the run's plan and warns of anything that may be unintended. A resumed run also logs where
// it resumes, and continues the record in its checkpoint. A collective. Throws as
// RunLogger::resume().
void begin_record(Run& run) {
  const RunStart start = describe_run(run);
  std::vector<std::string> warnings = plan_warnings(run.plan, run.sources);
  if (!run.resume) return run.log.start(start, warnings);
  const SavedRun& saved = run.resume->run;
  if (std::string lost = why_not_bit_equal(saved, run); !lost.empty())
    warnings.push_back(std::move(lost));
  std::string record;
  if (run.world.leads()) record = std::move(run.resume->checkpoint->record);
  run.resume->checkpoint.reset();
  run.log.resume(start, warnings,
                 {.time = start.time,
                  .epoch = saved.progress.epochs_done + 1,
                  .step = saved.steps(),
                  .checkpoint_time = saved.time,
                  .num_ranks = start.num_ranks,
                  .host = start.host},
                 record);
}

// Reads the sources, binds what follows from their length, and plans. A collective.
std::unique_ptr<Run> read_and_plan(TrainConfig asked, const std::optional<ResumePoint>& resume,
                                   const OpenFile& valid_stream, const Machine& machine,
                                   World& world, Log& log) {
  Predecessor predecessor;
  if (world.leads()) predecessor = Predecessor(asked, resume ? resume->run.started : 0);
  if (!predecessor.news().empty()) log.info(predecessor.news());
  Read read = read_and_share(asked, resume, valid_stream, machine, world, log);
  TransformSpec& pixels = read.pixels.train;
  // Images that are shown whole get no random crops either: as parts they would look larger.
  const bool is_resized = pixels.short_side > 0 || asked.data.image_size.height > 0;
  const int kept_side = pixels.fit != Fit::kCrop ? 1 : pixels.output.height;
  const Settings before =
      resume ? with_checkpoint(asked.settings, resume->run.options) : asked.settings;
  TrainConfig config = bound(
      asked, with_length(before, asked, read.division.steps_per_epoch,
                         is_resized && pixels.fit == Fit::kCrop ? 0 : kept_side, world.size()));
  pixels.augment = config.data.augment;
  Plan plan = make_plan({config, machine, resume, read.sources, *read.model},
                        std::move(read.pixels), std::move(read.division), read.found, world);
  return std::unique_ptr<Run>(new Run{{world, log, std::move(config), machine, std::move(plan),
                                       std::move(read.sources), std::move(read.fingerprints)},
                                      std::move(read.model_folder),
                                      std::move(predecessor),
                                      std::move(read.explanations),
                                      std::move(read.trace),
                                      std::move(read.model)});
}

}  // namespace

std::unique_ptr<Run> prepare(const TrainConfig& given, World& world, Log& log) {
  world.enter("starting", /*patient=*/true);
  Machine machine = choose_machine(given, world);
  TrainConfig config = given;  // the leader's checkpoints are those of all ranks
  config.checkpoint.path = world.broadcast(config.checkpoint.path);
  config.checkpoint.is_temporary = world.broadcast(config.checkpoint.is_temporary);
  FoundCheckpoint found = find_checkpoint(config, world, log);
  if (found.resume && found.resume->is_finished && found.resume->is_complete) {
    log.info("This run has already finished; its model is in '" + config.output.trained_model_path +
             "': there is nothing to do.");
    return nullptr;
  }
  use_processors(config, found.resume, world, machine);

  world.enter("reading the data", /*patient=*/true);
  const OpenFile valid_stream = spool_valid_stream(world, config, log);
  const auto open = [&] {
    return read_and_plan(config, found.resume, valid_stream, machine, world, log);
  };
  std::unique_ptr<Run> run = open();
  if (const std::string misfit = found.resume ? check_resumed(found.resume->run, *run) : "";
      !misfit.empty()) {
    run.reset();  // its locks
    found = {{}, {}, misfit};
    run = open();
  }
  use_precision(run->plan.precision.precision);
  found.set_aside(config.checkpoint, world, log);
  world.agree([&] {
    if (!world.leads()) return;
    set_best_aside(config.output.log_path, found.resume ? found.resume->run.started : 0, log);
    write_split(config, run->sources, log);
  });
  run->checkpoint_folder = std::move(found.folder);
  run->resume = std::move(found.resume);
  return run;
}

std::size_t Job::num_valid_images() const {
  const std::size_t num_shards =
      plan.division.has_own_valid ? static_cast<std::size_t>(world.size()) : 1;
  return sources.valid.samples.size() * num_shards;
}

std::unique_ptr<ImageModel> copied_model(const ImageModel& model, const Run& run) {
  std::unique_ptr<ImageModel> copy = make_image_model(model_options(run.sources));
  copy->prepare(torch_device(run.machine.device));
  synchronize_batch_norm(run, *copy);
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> from = model.state(), to = copy->state();
  for (std::size_t i = 0; i < to.size(); ++i) to[i].tensor.copy_(from[i].tensor);
  return copy;
}

long long bytes_of(const std::vector<NamedTensor>& tensors) {
  long long bytes = 0;
  for (const NamedTensor& item : tensors) bytes += static_cast<long long>(item.tensor.nbytes());
  return bytes;
}

long long bytes_of_copies(const TrainState& state, bool writes_checkpoints) {
  const long long weights = bytes_of(state.model->state());  // of the best epoch
  if (!writes_checkpoints) return weights;
  const long long averages = state.averages ? bytes_of(state.averages->state()) : 0;
  return weights + weights + bytes_of(state.optimizer->state()) + averages;
}

void begin(Run& run) {
  const TrainConfig& config = run.config;
  const Plan& plan = run.plan;
  connect(config.ranks, run);
  make_state(run);
  open_loaders(config.data, run);
  TrainState& state = *run.state;
  const bool writes_checkpoints = config.checkpoint.is_lasting() && !plan.uses_features;
  constexpr std::uint64_t kBytesOfKnown = 2 * kNeighborAxes + 64;  // with its name, about
  run.disk_space.emplace(
      SpacePlan{.model_folder = config.output.trained_model_path,
                .checkpoint_folder = writes_checkpoints ? config.checkpoint.path : "",
                .weights_bytes = static_cast<std::uint64_t>(bytes_of_copies(state, false)),
                .features_bytes = config.output.keep_features
                                      ? run.sources.train.samples.size() * kBytesOfKnown
                                      : 0,
                .checkpoint_bytes = static_cast<std::uint64_t>(bytes_of_copies(state, true))},
      run.console);
  run.world.agree([&] {
    if (run.world.leads()) run.disk_space->require();
    if (const long long bytes = bytes_of_copies(state, false);
        bytes > static_cast<long long>(kMaxStateDictBytes))
      throw Error(ErrorCode::kUserError,
                  "The model would have " + bytes_text(bytes) +
                      ", but a model's file holds at most 4 GiB: use a smaller network.");
  });
  install_stop_signals();
  // A run may have been resumed before with other options, which no checkpoint remembers.
  std::string why_not_equal(config.ranks.exchange.kind->why_not_repeatable);
  if (why_not_equal.empty() && run.resume)
    why_not_equal = formatted(
        "it was resumed, and these are the options of its last part\n# (where all parts "
        "had the same, the bits are the same; its learning rate rose to %g)",
        plan.recipe.schedule.peak);
  run.log.repeat_with(plan.settings, why_not_equal);
  run.stop.emplace(plan.stop, run.world, run.clock, state, run.console, run.log);
  begin_record(run);
  const long long copies =
      run.world.leads() ? bytes_of_copies(state, config.checkpoint.is_lasting()) : 0;
  run.log.watch_memory({.to_come = static_cast<long long>(run.cache.limit_bytes()) + copies,
                        .ranks_on_host = run.world.local_size(),
                        .batch_size = plan.loading.batch_size,
                        .on_gpu = run.machine.device.is_cuda});
  if (run.world.leads() && !run.resume && !config.output.no_pictures)
    run.first_batches.emplace(run.sources.train, plan.pixels.normalization, config.output.log_path,
                              run.console);
  run.checkpoints.emplace(run);
  run.stop->begin(/*is_resumed=*/run.resume.has_value());
  const auto ledger = [&](const char* name, const Dataset& set, bool is_shard,
                          ImageFaults& faults) {
    return BadImageLedger(name, set, is_shard, config.data.on_bad_image, config.data.max_bad_images,
                          faults);
  };
  run.bad_train.emplace(
      ledger("training", run.sources.train, plan.division.has_own_train, state.bad_train));
  run.bad_valid.emplace(
      ledger("validation", run.sources.valid, plan.division.has_own_valid, state.bad_valid));
}

}  // namespace kiln
