#include "run/training_run.h"

#include <malloc.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/machine.h"
#include "base/signals.h"
#include "base/text.h"
#include "report/training_json.h"
#include "run/image_fault_ledger.h"
#include "run/judgement.h"
#include "run/model_weights.h"
#include "run/rank_agreement.h"
#include "run/run_start.h"
#include "run/run_telling.h"
#include "run/training_loaders.h"
#include "run/training_report.h"
#include "run/training_setup.h"
#include "run/versions.h"
#include "train/early_stop.h"
#include "train/epoch.h"
#include "train/evaluation.h"
#include "train/replicas.h"
#include "train/schedule.h"

namespace kiln {
namespace {

constexpr std::array kStopSignals = {SIGTERM, SIGINT, SIGUSR1};

// One run: what was read, what is being trained, and what has been noted so far. All ranks go
// through it in step.
class TrainingRun {
 public:
  TrainingRun(const TrainConfig& config, World& world, Log& log, TrainingSetup setup);
  void train();
  void save();
  void fail(const std::exception_ptr& failure) { telling_.failed(failure); }
  int stopped_by() const { return stopped_by_; }  // the stop signal that all ranks agreed on, or 0

 private:
  bool train_epoch(int epoch);                       // false: a stop signal came first
  std::optional<EpochRecord> take_steps(int epoch);  // none: likewise
  bool validate(EpochRecord& record, Evaluation& evaluation);
  bool agree_to_go_on(ImageFaultLedger& ledger, bool is_own_part,
                      const std::vector<BadImage>& faults);
  void require_finite(const TrainEpoch& training, int epoch, double learning_rate);
  Totals sum_over_ranks(const Totals& totals);
  double sum_over_ranks(double value) { return world_.sum({value}).front(); }
  bool keep_if_best(const EpochRecord& record);  // whether it was
  void tell_step(TrainEpoch& training, int epoch, double learning_rate);

  const TrainConfig& config_;
  World& world_;
  Log& log_;
  Device device_;
  int loader_threads_;
  TrainingInputs inputs_;
  ImageFaultLedger train_faults_, valid_faults_;
  std::unique_ptr<Communicator> communicator_;  // outlives the state
  std::unique_ptr<TrainState> state_;
  std::unique_ptr<DeviceFeed> feed_, valid_feed_;  // the second where the sizes differ
  std::unique_ptr<TrainingLoaders> loaders_;
  RunTelling telling_;
  StateDict kept_;  // on rank 0
  Totals kept_totals_;
  int stopped_by_ = 0;
};

// Numbers of a whole epoch that nobody can go on with.
void check_epoch(const EpochRecord& record, const TrainConfig& config) {
  if (record.train.count == 0 || record.valid.count == 0)
    throw Error(ErrorCode::kInvalidDataset,
                std::string(record.train.count == 0 ? "Training" : "Validation") +
                    " dataset is not valid: none of its images could be decoded. `kiln inspect "
                    "--check` lists why.");
  if (!std::isfinite(record.valid.loss_sum))
    throw Error(
        ErrorCode::kFailedToCompleteOperation,
        formatted("The validation loss is not a finite number after epoch %d, step %lld, "
                  "with learning rate %g: training has diverged. Use a lower "
                  "--learning-rate (a tenth of it is a good next try).",
                  record.epoch,
                  static_cast<long long>(record.train.count / config.optimization.batch_size),
                  record.learning_rate));
}

TrainingRun::TrainingRun(const TrainConfig& config, World& world, Log& log, TrainingSetup setup)
    : config_(config),
      world_(world),
      log_(log),
      device_(std::move(setup.device)),
      loader_threads_(config.data.loader_threads > 0 ? config.data.loader_threads
                                                     : std::clamp(setup.num_processors / 2, 1, 16)),
      inputs_(std::move(setup.inputs)),
      train_faults_("training", inputs_.train, config, world.leads(), log),
      valid_faults_("validation", inputs_.valid, config, world.leads(), log),
      communicator_(join_communicator(world, config, device_, log)),
      telling_(config, world.leads(), device_, log) {
  const BucketPlan buckets{.bytes = static_cast<std::size_t>(config.ranks.bucket_mb) << 20,
                           .bfloat16 = config.ranks.bfloat16_gradients};
  if (communicator_) {
    broadcast_state(*setup.model, *communicator_);
    if (config.ranks.sync_batch_norm)
      setup.model->synchronize_batch_norm([this](at::Tensor& sums) {
        communicator_->start_sum(sums);
        communicator_->finish();
      });
  }
  state_ = std::make_unique<TrainState>(std::move(setup.model), buckets, communicator_.get());
  long long num_parameters = 0;
  const auto& parameters = state_->model->parameters();
  for (const at::Tensor& parameter : parameters) num_parameters += parameter.numel();
  inputs_.untrained.state = {};
  const at::Device place = parameters.front().device();
  const Normalization scaling{inputs_.normalization.mean, inputs_.normalization.std};
  const auto open_feed = [&](const PixelPlan& pixels) {
    return std::make_unique<DeviceFeed>(place, pixels.output, config.optimization.batch_size,
                                        scaling);
  };
  feed_ = open_feed(inputs_.pixels);
  if (inputs_.valid_pixels.output != inputs_.pixels.output)
    valid_feed_ = open_feed(inputs_.valid_pixels);
  CacheChoice cache;
  world.agree([&] { cache = choose_cache(config, inputs_, world.local_size()); });
  loaders_ = std::make_unique<TrainingLoaders>(config, inputs_, loader_threads_, cache,
                                               host_form(place, scaling));
  report_plan(config, inputs_,
              {device_.description, describe_ranks(world), world.rank(), world.size(),
               at::get_num_threads(), loader_threads_, num_parameters, cache.reason,
               loaders_->most_memory_bytes()},
              log);
  for (const std::string& idle : idle_gpus(world, device_))
    log.info(idle + ": `kiln train --ranks auto` uses them all");
  RunStart start = run_start(config, world, inputs_);
  start.device = device_.description;
  start.versions = versions(device_.is_cuda);
  start.num_parameters = num_parameters;
  telling_.start(std::move(start));
}

// Stop signals and bad images anywhere are known everywhere after this; false: stop.
bool TrainingRun::agree_to_go_on(ImageFaultLedger& ledger, bool is_own_part,
                                 const std::vector<BadImage>& faults) {
  std::vector<double> told = {faults.empty() ? 0.0 : 1.0};
  for (const int signal : kStopSignals) told.push_back(stop_signal() == signal ? 1 : 0);
  const std::vector<double> all = world_.sum(told);
  // A number of another part's image says nothing here: its own ranks note it.
  if (all[0] > 0)
    world_.agree([&] { ledger.note(is_own_part ? faults : share_faults(world_, faults)); });
  for (std::size_t i = 0; i < kStopSignals.size() && stopped_by_ == 0; ++i)
    if (all[i + 1] > 0) stopped_by_ = kStopSignals[i];
  return stopped_by_ == 0;
}

Totals TrainingRun::sum_over_ranks(const Totals& totals) {
  const std::vector<double> sums =
      world_.sum({totals.loss_sum, static_cast<double>(totals.top1),
                  static_cast<double>(totals.top5), static_cast<double>(totals.count)});
  return {sums[0], static_cast<std::int64_t>(sums[1]), static_cast<std::int64_t>(sums[2]),
          static_cast<std::int64_t>(sums[3])};
}

void TrainingRun::require_finite(const TrainEpoch& training, int epoch, double learning_rate) {
  int first = 0;
  for (const std::string& text : world_.gather(std::to_string(training.first_bad_step()))) {
    const int step = std::stoi(text);
    if (step > 0 && (first == 0 || step < first)) first = step;
  }
  if (first == 0) return;
  world_.agree([&] {
    throw Error(
        ErrorCode::kFailedToCompleteOperation,
        formatted(
            "The training loss is not a finite number at epoch %d, step %d, with learning rate %g: "
            "training has diverged. Use a lower --learning-rate (a tenth of it is a good next "
            "try).",
            epoch, first, learning_rate));
  });
}

void TrainingRun::tell_step(TrainEpoch& training, int epoch, double learning_rate) {
  if ((training.steps_done() - 1) % config_.output.print_freq == 0) {
    require_finite(training, epoch, learning_rate);
    StepRecord record = training.step_record();
    record.batch = sum_over_ranks(record.batch);
    record.so_far = sum_over_ranks(record.so_far);
    record.batch_images_per_second = sum_over_ranks(record.batch_images_per_second);
    record.epoch_images_per_second = sum_over_ranks(record.epoch_images_per_second);
    telling_.step(record);
  }
  telling_.progress(training.timing());
}

std::optional<EpochRecord> TrainingRun::take_steps(int epoch) {
  const Schedule schedule{
      config_.optimization.epochs, config_.optimization.num_warmup_steps,
      config_.optimization.learning_rate * config_.optimization.lr_scaling.of(world_.size())};
  const double rate = schedule.rate(epoch - 1);
  world_.enter("training, epoch " + std::to_string(epoch));
  BatchLoader loader = loaders_->training(epoch);
  loaders_->begin_validation(epoch);
  TrainEpoch training(*state_, loader, *feed_,
                      {.epoch = epoch,
                       .num_epochs = config_.optimization.epochs,
                       .learning_rate = rate,
                       .smallest_batch = inputs_.smallest_batch,
                       .num_ranks = world_.size(),
                       .batches_per_step = config_.optimization.accumulate,
                       .train_on_empty_batches = config_.ranks.sync_batch_norm});
  while (training.step()) {
    world_.at("step " + std::to_string(training.steps_done()));
    if (!agree_to_go_on(train_faults_, config_.data.has_train_shard, loader.take_faults()))
      return std::nullopt;
    tell_step(training, epoch, rate);
  }
  require_finite(training, epoch, rate);
  return training.finish();
}

bool TrainingRun::train_epoch(int epoch) {
  std::optional<EpochRecord> taken = take_steps(epoch);
  if (!taken) return false;
  if (epoch < config_.optimization.epochs) loaders_->begin_training(epoch + 1);
  EpochRecord& record = *taken;
  record.train = sum_over_ranks(record.train);
  record.average_images_per_second = sum_over_ranks(record.average_images_per_second);
  record.train_images_per_second = sum_over_ranks(record.train_images_per_second);
  if (communicator_) average_statistics(*state_->model, *communicator_, world_.size());
  if (communicator_) world_.agree([&] { require_equal_replicas(*state_->model, world_); });
  Evaluation evaluation;
  if (!validate(record, evaluation)) return false;
  record.bad_train_images = train_faults_.num_bad();
  record.bad_valid_images = valid_faults_.num_bad();
  Judgement judgement;
  const bool kept = keep_if_best(record);
  if (kept)
    judgement = judge(world_, evaluation.verdicts, inputs_.valid, inputs_.valid_pixels, epoch);
  telling_.epoch(record, kept ? &judgement : nullptr);
  return agree_to_go_on(valid_faults_, config_.data.has_valid_shard, {});
}

bool TrainingRun::validate(EpochRecord& record, Evaluation& evaluation) {
  world_.enter("evaluating, epoch " + std::to_string(record.epoch));
  const auto begin = std::chrono::steady_clock::now();
  BatchLoader loader = loaders_->validation(record.epoch);
  std::vector<BadImage> faults;
  DeviceFeed& feed = valid_feed_ ? *valid_feed_ : *feed_;
  int step = 0;
  evaluate(*state_->model, loader, feed, &evaluation, [&] {
    telling_.validating(record.epoch, ++step, loader.num_batches());
    for (BadImage& fault : loader.take_faults()) faults.push_back(std::move(fault));
    if (world_.size() == 1) valid_faults_.note(std::exchange(faults, {}));
    return stop_signal() != 0;
  });
  if (!agree_to_go_on(valid_faults_, config_.data.has_valid_shard, faults)) return false;
  record.valid = sum_over_ranks(evaluation.totals);
  record.valid_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  world_.agree([&] { check_epoch(record, config_); });
  return true;
}

bool TrainingRun::keep_if_best(const EpochRecord& record) {
  const bool first = telling_.outcome().saved_epoch == 0;
  if (!first && config_.optimization.save == SaveChoice::kBest &&
      !is_better(record.valid, kept_totals_))
    return false;
  if (world_.leads()) kept_ = to_state_dict(*state_->model);
  kept_totals_ = record.valid;
  return true;
}

void TrainingRun::train() {
  Patience patience(config_.optimization.patience);
  for (int epoch = 1; epoch <= config_.optimization.epochs; ++epoch) {
    const bool goes_on = train_epoch(epoch);
    if (!goes_on) {
      telling_.stopped_early("signal", "Stopped by signal " + std::to_string(stopped_by_) + ".");
      return;
    }
    if (patience.exhausted_after(telling_.run().epochs.back().valid.loss()) &&
        epoch < config_.optimization.epochs) {
      telling_.stopped_early("patience", "Early stopped.");
      return;
    }
  }
}

void TrainingRun::save() {
  if (telling_.outcome().saved_epoch == 0) {
    telling_.nothing_saved();
    return;
  }
  // Files are made in memory: what only training needs makes room for them.
  loaders_.reset();
  state_.reset();
  malloc_trim(0);
  if (!world_.leads()) return;
  std::vector<ImageFaultRecord> faults = train_faults_.records();
  faults.insert(faults.end(), valid_faults_.records().begin(), valid_faults_.records().end());
  telling_.saving(std::move(faults));
  TrainedModel model{inputs_.untrained.spec,
                     std::move(kept_),
                     inputs_.train.classes,
                     preprocessing_of(inputs_),
                     inputs_.train.schema_json,
                     inputs_.train.samples_json,
                     format_training_json(telling_.run(), telling_.outcome())};
  model.spec.num_classes = static_cast<int>(inputs_.train.classes.size());
  write_directory(config_.output.trained_model_path, trained_model_files(model));
  telling_.saved(config_.output.trained_model_path);
  report_closing(config_, telling_.reporter(), {train_faults_, valid_faults_}, log_);
}

// What the system had no more of while the images were read.
void throw_if_used_up(const std::system_error& refusal) {
  const int number = refusal.code().value();
  const std::string found = refusal.what();
  if (number == EMFILE || number == ENFILE)
    throw Error(ErrorCode::kFailedToCompleteOperation,
                found +
                    ". Raise the limit of open files (ulimit -n), or use fewer "
                    "--loader-threads.");
  if (number == ENOMEM)
    throw Error(ErrorCode::kModuleOutOfMemory,
                found + ". Use a smaller --batch-size, or fewer --loader-threads.");
}

void train_and_save(TrainingRun& run, World& world) {
  try {
    run.train();
  } catch (const std::system_error& refusal) {
    throw_if_used_up(refusal);
    throw;
  }
  world.enter("saving", /*patient=*/true);
  world.agree([&] { run.save(); });
}

}  // namespace

int run_train(const TrainConfig& config, World& world, Log& log) {
  install_stop_signals();
  keep_freed_memory();
  TrainingRun run(config, world, log, set_up_training(config, world));
  try {
    train_and_save(run, world);
  } catch (...) {
    run.fail(std::current_exception());
    throw;
  }
  return run.stopped_by() == 0 ? 0 : 128 + run.stopped_by();
}

}  // namespace kiln
