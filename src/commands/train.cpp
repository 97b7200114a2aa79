#include "commands/train.h"

#include <malloc.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/machine.h"
#include "base/random.h"
#include "base/signals.h"
#include "commands/image_fault_ledger.h"
#include "commands/starting_weights.h"
#include "commands/training_inputs.h"
#include "commands/training_report.h"
#include "commands/versions.h"
#include "commands/weights.h"
#include "parallel/device.h"
#include "report/lines.h"
#include "train/early_stop.h"
#include "train/epoch.h"
#include "train/schedule.h"

namespace kiln {
namespace {

// One run: what was read, what is being trained, and what has been noted so far.
class TrainingRun {
 public:
  TrainingRun(const TrainConfig& config, Log& log);
  void train();
  void save();

 private:
  BatchLoader open_loader(const std::vector<LoadItem>& items, int epoch) const;
  bool train_epoch(int epoch);  // false: a stop signal came first
  bool validate(EpochRecord& record);
  void keep_if_best(const EpochRecord& record);
  void tell_step(const TrainEpoch& training);

  const TrainConfig& config_;
  Log& log_;
  Device device_;
  int threads_, loader_threads_;
  TrainingInputs inputs_;
  ImageFaultLedger train_faults_, valid_faults_;
  std::vector<LoadItem> train_items_, valid_items_;
  std::unique_ptr<TrainState> state_;
  std::unique_ptr<DeviceFeed> feed_;
  TrainingRecord record_;
  StateDict kept_;
  Totals kept_totals_;
  double last_loss_ = 0;
};

Device chosen_device(DeviceChoice choice) {
  if (choice == DeviceChoice::kCpu) return choose_device(DeviceWish::kCpu);
  return choose_device(choice == DeviceChoice::kCuda ? DeviceWish::kCuda : DeviceWish::kAuto);
}

// Memory that a step frees is used by the next one: giving it back to the system costs a page fault
// a page.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

std::vector<LoadItem> load_items(const ImageSet& set) {
  std::vector<LoadItem> items;
  items.reserve(set.items.size());
  for (const ImageItem& item : set.items) items.push_back({set.path_of(item), item.label});
  return items;
}

// Stored weights when they are worth something, else fresh ones from the seed.
std::unique_ptr<ImageModel> build_model(const TrainConfig& config, const TrainingInputs& inputs,
                                        const Device& device) {
  const ModelSpec& spec = inputs.untrained.spec;
  torch::manual_seed(static_cast<std::uint64_t>(config.random_seed));
  auto model = make_image_model({.model_name = spec.model_name,
                                 .num_classes = static_cast<int>(inputs.train.classes.size()),
                                 .with_output_layer = spec.pretrained,
                                 .memory_efficient = spec.memory_efficient,
                                 .zero_init_residual = spec.zero_init_residual});
  const std::string where = config.untrained_model_path + "/" + spec.model_file;
  if (spec.pretrained)
    load_pretrained(*model, inputs.untrained.state, where);
  else
    check_untrained(*model, inputs.untrained.state, where);
  model->prepare(device.is_cuda ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index))
                                : at::Device(at::kCPU));
  return model;
}

std::vector<long long> counts_by_class(const ImageSet& set, std::size_t num_classes) {
  std::vector<long long> counts(num_classes);
  for (const ImageItem& item : set.items) ++counts[static_cast<std::size_t>(item.label)];
  return counts;
}

DataRecord data_record(const TrainingInputs& inputs) {
  DataRecord data;
  data.classes = inputs.train.classes;
  data.train_counts = counts_by_class(inputs.train, data.classes.size());
  data.valid_counts = counts_by_class(inputs.valid, data.classes.size());
  data.image_height = inputs.pixels.output.height;
  data.image_width = inputs.pixels.output.width;
  data.resize_short_side = inputs.resize_short_side;
  data.normalization = inputs.normalization_name;
  for (std::size_t c = 0; c < 3; ++c) {
    data.mean[c] = inputs.normalization.mean[c];
    data.std[c] = inputs.normalization.std[c];
  }
  return data;
}

TrainingRun::TrainingRun(const TrainConfig& config, Log& log)
    : config_(config),
      log_(log),
      device_(chosen_device(config.device)),
      threads_(config.threads > 0 ? config.threads : usable_cpus()),
      loader_threads_(config.loader_threads > 0 ? config.loader_threads
                                                : std::clamp(usable_cpus() / 2, 1, 16)),
      inputs_(read_training_inputs(config, usable_cpus())),
      train_faults_("training", inputs_.train, config, log),
      valid_faults_("validation", inputs_.valid, config, log),
      train_items_(load_items(inputs_.train)),
      valid_items_(load_items(inputs_.valid)) {
  prepare_model_output(config.trained_model_path);
  keep_freed_memory();
  at::set_num_threads(threads_);
  state_ = std::make_unique<TrainState>(build_model(config, inputs_, device_));
  long long num_parameters = 0;
  for (const at::Tensor& parameter : state_->model->parameters())
    num_parameters += parameter.numel();
  inputs_.untrained.state = {};
  const auto& parameters = state_->model->parameters();
  feed_ = std::make_unique<DeviceFeed>(
      parameters.front().device(), inputs_.pixels.output, config.batch_size,
      PixelScaling{inputs_.normalization.mean, inputs_.normalization.std});
  report_plan(config, inputs_, {device_.description, threads_, loader_threads_, num_parameters},
              log);
  record_.options = config.as_used;
  record_.versions = versions(device_.is_cuda);
  record_.data = data_record(inputs_);
}

BatchLoader TrainingRun::open_loader(const std::vector<LoadItem>& items, int epoch) const {
  const auto count = static_cast<std::uint32_t>(items.size());
  const bool training = &items == &train_items_;
  std::vector<std::uint32_t> order(count);
  for (std::uint32_t i = 0; i < count; ++i) order[i] = i;
  if (training)
    order = permutation(count, {static_cast<std::uint64_t>(config_.random_seed),
                                static_cast<std::uint64_t>(epoch)});
  return BatchLoader(items, {.order = std::move(order),
                             .batch_size = config_.batch_size,
                             .drop_last = training,
                             .pixels = inputs_.pixels,
                             .num_threads = loader_threads_,
                             .num_slots = loader_threads_ + 2});
}

void TrainingRun::tell_step(const TrainEpoch& training) {
  if ((training.steps_done() - 1) % config_.print_freq == 0) {
    const StepRecord record = training.step_record();
    last_loss_ = record.so_far.loss();
    log_.info(iteration_line(record));
  }
  if (log_.on_terminal()) log_.progress(progress_line(training.timing(), last_loss_));
}

bool TrainingRun::train_epoch(int epoch) {
  const Schedule schedule{config_.epochs, config_.num_warmup_steps, config_.learning_rate};
  BatchLoader loader = open_loader(train_items_, epoch);
  TrainEpoch training(*state_, loader, *feed_,
                      {epoch, config_.epochs, schedule.rate(epoch - 1), inputs_.smallest_batch});
  while (training.step()) {
    if (record_.start_to_first_step_seconds == 0)
      record_.start_to_first_step_seconds = seconds_since_process_start();
    train_faults_.note(loader.take_faults());
    tell_step(training);
    if (stop_signal() != 0) return false;
  }
  EpochRecord record = training.finish();
  if (!validate(record)) return false;
  record_.epochs.push_back(record);
  log_.info(epoch_line(record));
  char text[64];
  std::snprintf(text, sizeof text, "learning rate %g, train images/s %.2f", record.learning_rate,
                record.train_images_per_second);
  log_.info(text);
  keep_if_best(record);
  return stop_signal() == 0;
}

bool TrainingRun::validate(EpochRecord& record) {
  const auto begin = std::chrono::steady_clock::now();
  BatchLoader loader = open_loader(valid_items_, record.epoch);
  const bool whole =
      evaluate(*state_->model, loader, *feed_, &record.valid, [] { return stop_signal() != 0; });
  valid_faults_.note(loader.take_faults());
  record.valid_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!whole) return false;
  if (record.train.count == 0 || record.valid.count == 0)
    throw Error(ErrorCode::kInvalidDataset,
                std::string(record.train.count == 0 ? "Training" : "Validation") +
                    " dataset is not valid: none of its images could be decoded. `kiln inspect "
                    "--check` lists why.");
  if (!std::isfinite(record.valid.loss_sum))
    throw Error(ErrorCode::kFailedToCompleteOperation,
                "The validation loss is not a finite number after epoch " +
                    std::to_string(record.epoch) + ", step " +
                    std::to_string(train_items_.size() / config_.batch_size) +
                    ", with learning rate " + std::to_string(record.learning_rate) +
                    ": training has diverged. Use a lower --learning-rate (a tenth of it is a good "
                    "next try).");
  return true;
}

void TrainingRun::keep_if_best(const EpochRecord& record) {
  const bool first = record_.saved_epoch == 0;
  if (!first && config_.save == SaveChoice::kBest && !is_better(record.valid, kept_totals_)) return;
  kept_ = to_state_dict(*state_->model);
  kept_totals_ = record.valid;
  record_.saved_epoch = record.epoch;
}

void TrainingRun::train() {
  Patience patience(config_.patience);
  for (int epoch = 1; epoch <= config_.epochs; ++epoch) {
    const bool goes_on = train_epoch(epoch);
    if (!goes_on) {
      record_.stopped_early = "signal";
      log_.info("Stopped by signal " + std::to_string(stop_signal()) + ".");
      return;
    }
    if (patience.exhausted_after(record_.epochs.back().valid.loss()) && epoch < config_.epochs) {
      record_.stopped_early = "patience";
      log_.info("Early stopped.");
      return;
    }
  }
}

void TrainingRun::save() {
  if (record_.saved_epoch == 0) {
    log_.info("No epoch was finished: no model is written.");
    return;
  }
  for (const auto* ledger : {&train_faults_, &valid_faults_})
    record_.image_faults.insert(record_.image_faults.end(), ledger->records().begin(),
                                ledger->records().end());
  record_.peak_memory_bytes = peak_memory_bytes();
  record_.total_seconds = seconds_since_process_start();
  TrainedModel model{inputs_.untrained.spec,     std::move(kept_),
                     inputs_.train.classes,      inputs_.train.schema_json,
                     inputs_.train.samples_json, format_training_json(record_)};
  model.spec.num_classes = static_cast<int>(inputs_.train.classes.size());
  model.spec.normalization = inputs_.normalization;
  write_directory(config_.trained_model_path, trained_model_files(model));
  record_.total_seconds = seconds_since_process_start();
  report_closing(config_, record_,
                 {train_faults_, valid_faults_, device_.description, peak_device_memory(device_)},
                 log_);
}

}  // namespace

int run_train(const TrainConfig& config, Log& log) {
  install_stop_signals();
  TrainingRun run(config, log);
  run.train();
  run.save();
  return stop_signal() == 0 ? 0 : 128 + stop_signal();
}

}  // namespace kiln
