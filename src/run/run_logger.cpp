#include "run/run_logger.h"

#include <ATen/Parallel.h>
#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "base/system.h"
#include "base/text.h"
#include "config/options.h"
#include "process/versions.h"
#include "report/failure/error_info.h"
#include "report/mlflow/mlflow_sink.h"
#include "report/page/page.h"
#include "report/record/run_file.h"
#include "report/sinks/sinks.h"
#include "run/choices.h"
#include "run/class_counts.h"
#include "run/plan_warnings.h"
#include "run/rank_agreement.h"
#include "run/time_limit.h"

namespace kiln {
namespace {

DataRecord data_record(const TrainingJob& job) {
  const DataConfig& config = job.config.data;
  const TrainingInputs& inputs = job.inputs;
  DataRecord data;
  data.train_path = config.train_path;
  data.valid_path = config.valid_path;
  data.classes = inputs.train.classes;
  data.train_counts = counts_of_all(job.world, inputs.train, data.classes.size(),
                                    config.has_train_shard ? &inputs.train_shard : nullptr);
  data.valid_counts = counts_of_all(job.world, inputs.valid, data.classes.size(),
                                    config.has_valid_shard ? &inputs.valid_shard : nullptr);
  data.image_height = inputs.pixels.output.height;
  data.image_width = inputs.pixels.output.width;
  data.resize_short_side = inputs.pixels.short_side;
  data.augment = augment_name(config.augment);
  data.eval_height = inputs.valid_pixels.output.height;
  data.eval_width = inputs.valid_pixels.output.width;
  data.eval_resize_short_side = inputs.valid_pixels.short_side;
  data.normalization = inputs.normalization_name;
  std::copy(inputs.normalization.mean.begin(), inputs.normalization.mean.end(), data.mean);
  std::copy(inputs.normalization.std.begin(), inputs.normalization.std.end(), data.std);
  return data;
}

// Includes options with non-default values only.
std::string repeating_command(const TrainConfig& config) {
  const CommandInfo& command = *find_command("train");
  std::string line = "kiln train";
  for (const auto& [name, value] : config.effective_options) {
    const Option* option = find_option(command, name);
    if (option == nullptr || value == option->default_text) continue;
    line += " --" + name + " " + shell_word(value);
  }
  return line;
}

std::string set_text(const Dataset& set) {
  return grouped(static_cast<long long>(set.samples.size())) + " images, " +
         std::to_string(set.classes.size()) + (set.classes.size() == 1 ? " class" : " classes") +
         " (" + describe(set.kind) + " '" + set.root.string() + "')";
}

std::string size_text(const TransformSpec& pixels) {
  return formatted("%dx%d", pixels.output.width, pixels.output.height);
}

std::string center_text(const TransformSpec& pixels) {
  return formatted("short side to %d, center crop", pixels.short_side);
}

void plan_data(const TrainingInputs& inputs, TextPairs& plan) {
  plan.emplace_back("training data", set_text(inputs.train));
  plan.emplace_back("validation data", set_text(inputs.valid));
  const TransformSpec &train = inputs.pixels, &valid = inputs.valid_pixels;
  const bool centered = !takes_random_parts(train.augment);
  plan.emplace_back(
      "image size",
      size_text(train) + " (" + inputs.size_reason +
          (centered && train.short_side > 0 ? "; other sizes: " + center_text(train) : "") + ")");
  if (valid.output != train.output || valid.short_side != (centered ? train.short_side : 0))
    plan.emplace_back("validation size", size_text(valid) + " (" + center_text(valid) + ")");
  if (train.augment != Augment::kNone)
    plan.emplace_back("augmentation",
                      augment_name(train.augment) + " (" + augment_text(train.augment) + ")");
}

// "balanced, 0.37 (cat) to 3.33 (dog)".
std::string weights_text(const std::string& choice, const std::vector<double>& weights,
                         const std::vector<std::string>& classes) {
  const auto [least, most] = std::minmax_element(weights.begin(), weights.end());
  const auto text = [&](auto weight) {
    return formatted("%.3g (", *weight) +
           printable(classes.at(static_cast<std::size_t>(weight - weights.begin()))) + ")";
  };
  return choice + ", " + text(least) + " to " + text(most);
}

void plan_balance(const TrainingJob& job, TextPairs& plan) {
  const OptimizationConfig& config = job.config.optimization;
  if (const std::vector<double>& weights = job.recipe.loss.class_weights; !weights.empty())
    plan.emplace_back(
        "class weights",
        weights_text(config.class_weights == ClassWeights::kSqrt ? "sqrt" : "balanced", weights,
                     job.inputs.train.classes));
  if (config.sample == Sampling::kBalanced)
    plan.emplace_back("sampling", "balanced, every class equally often in each epoch");
}

// What is trained, of a network that is frozen in part.
std::string frozen_text(const TrainingJob& job, const TrainState& state, long long num_parameters) {
  long long num_trained = 0;
  for (const NamedTensor& item : state.model->trained_parameters())
    num_trained += item.tensor.numel();
  const bool is_norm = job.recipe.freeze == Freeze::kNorm;
  return std::string(is_norm ? "BatchNorm" : "the backbone") + "; " + grouped(num_trained) +
         " of " + grouped(num_parameters) + " parameters are trained";
}

std::string feature_plan(const TrainingJob& job) {
  const OptimizationConfig& config = job.config.optimization;
  return "each image once through the frozen network, then the last layer is fitted to the " +
         std::string("features, with a penalty chosen on images out of fold") +
         (config.folds > 0 ? formatted("; %d folds", config.folds) : "") +
         formatted("; seed %lld", static_cast<long long>(config.random_seed));
}

TextPairs plan_of(const TrainingJob& job, const TrainState& state, long long num_parameters) {
  const OptimizationConfig& config = job.config.optimization;
  const TrainingInputs& inputs = job.inputs;
  const ModelSpec& spec = inputs.untrained.spec;
  const bool has_weights = !inputs.weights_text.empty() || !job.config.data.network.weights.empty();
  const int num_ranks = job.world.size();
  const double peak = job.recipe.schedule.peak;
  const long long global_batch = job.epoch_plan(1).step.images();
  TextPairs plan;
  plan_data(inputs, plan);
  plan.emplace_back("model", spec.model_name + ", " + grouped(num_parameters) + " parameters, " +
                                 (has_weights       ? "given weights"
                                  : spec.pretrained ? "pretrained weights"
                                                    : "fresh weights from the seed"));
  if (!inputs.weights_text.empty()) plan.emplace_back("weights", inputs.weights_text);
  if (job.recipe.freeze != Freeze::kNone)
    plan.emplace_back("frozen", frozen_text(job, state, num_parameters));
  plan.emplace_back(
      "normalization",
      inputs.normalization_name +
          (inputs.normalization_reason.empty() ? "" : " (" + inputs.normalization_reason + ")"));
  plan.emplace_back("device", job.device.description +
                                  formatted(", %d compute and %d loader threads",
                                            at::get_num_threads(), job.loader_threads.first) +
                                  (num_ranks == 1 ? ", 1 rank" : ""));
  plan.emplace_back("precision",
                    precision_name(job.precision.precision) + " (" + job.precision.reason + ")");
  plan.emplace_back("loading", bytes_text(job.loaders->most_memory_bytes()) +
                                   " of memory at most; cache: " + job.cache.reason);
  if (num_ranks > 1)
    plan.emplace_back(
        "ranks",
        describe_ranks(job.world) +
            (job.bound_to == 0 ? "" : formatted(", each bound to %d processors", job.bound_to)) +
            formatted("; global batch of %lld images, learning rate %g x %g = %g", global_batch,
                      config.learning_rate, peak / config.learning_rate, peak));
  if (job.uses_features) {
    plan.emplace_back("plan", feature_plan(job));
    tell_choices(job.choices, plan);
    return plan;
  }
  const std::optional<TimePlan> time = time_plan_of(job, state);
  std::string steps = time && time->epochs == 0 ? "at most " : "";
  steps += formatted(
      "%d epochs of %lld steps of %lld images, learning rate %g, "
      "warm-up %d epochs, patience %d, seed %lld",
      job.num_epochs(), static_cast<long long>(inputs.steps_per_epoch), global_batch, peak,
      config.num_warmup_steps, config.patience, static_cast<long long>(config.random_seed));
  if (const long long left_over = images_left_over(job); left_over > 0)
    steps += formatted("; %lld of %zu images left over in each epoch, different ones each time",
                       left_over, inputs.train.samples.size());
  if (config.steps > 0)
    steps += formatted("; %lld steps in all", static_cast<long long>(config.steps));
  if (const double factor = job.recipe.optimizer.head_rate; factor != 1)
    steps += formatted("; learning rate of the last layer %g", peak * factor);
  plan.emplace_back("plan", std::move(steps));
  if (time) plan.emplace_back(kTimeLimitLabel, time_limit_text(job, *time));
  plan_balance(job, plan);
  tell_choices(job.choices, plan);
  return plan;
}

void add_files(const std::filesystem::path& folder, const std::function<std::string()>& repeat,
               RunReporter& reporter) {
  if (::access(folder.c_str(), W_OK) != 0) return;  // already warned about
  if (is_record_in_use(folder / kRunFileName)) {
    reporter.add([&]() -> std::unique_ptr<RunSink> {
      throw std::runtime_error("Another run is writing its records to '" + folder.string() +
                               "', so this run writes neither records nor a log file. Give each "
                               "run its own --log-path.");
    });
    return;
  }
  reporter.add([&] { return make_run_file(folder / kRunFileName); }, folder);
  if (repeat) reporter.add([&] { return make_repeat_file(folder / kRepeatName, repeat); }, folder);
  reporter.add([&] { return make_epochs_csv(folder / kEpochsFileName); }, folder);
  reporter.add([&] { return make_tensorboard(folder / "tensorboard"); }, folder);
  reporter.add([&] { return make_html_report(folder / kReportName); }, folder);
}

}  // namespace

double CpuMeter::take_share(int num_threads) {
  const double used = processor_seconds() - processor_begin_, wall = watch_.seconds();
  *this = {};
  return wall > 0 ? std::min(1.0, used / (wall * num_threads)) : 0;
}

RunStart describe_run(const TrainingJob& job, const TrainState& state) {
  RunStart start;
  start.time = unix_seconds();
  start.options = job.config.effective_options;
  start.versions = versions(job.device.is_cuda);
  start.command = repeating_command(job.config);
  start.model = job.inputs.untrained.spec.model_name;
  start.device = job.device.description;
  start.host = host_name();
  start.precision = precision_name(job.precision.precision);
  start.precision_reason = job.precision.reason;
  for (const at::Tensor& parameter : state.model->parameters())
    start.num_parameters += parameter.numel();
  start.num_ranks = job.world.size();
  start.num_epochs = job.num_epochs();
  start.steps_per_epoch = job.uses_features ? 0 : static_cast<int>(job.inputs.steps_per_epoch);
  start.global_batch = static_cast<int>(job.epoch_plan(1).step.images());
  start.data = data_record(job);
  start.plan = plan_of(job, state, start.num_parameters);
  for (const std::string& idle : idle_gpus(job.world, job.device))
    start.plan.emplace_back("idle", idle + ": use `kiln train --ranks auto` to use all of them");
  return start;
}

void add_run_sinks(const OutputConfig& config, const std::function<std::string()>& repeat,
                   RunReporter& reporter) {
  add_files(config.log_path, repeat, reporter);
  if (!config.kfp_executor_input.empty())
    reporter.add([&] { return make_kfp_artifact(config.kfp_executor_input); });
  if (!config.kfp_metrics.empty())
    reporter.add([&] { return make_kfp_metrics_file(config.kfp_metrics); });
  if (const std::optional<MlflowSettings> settings = mlflow_settings_of_environment())
    reporter.add([&] {
      const std::filesystem::path report = std::filesystem::path(config.log_path) / kReportName;
      return make_mlflow_sink(*settings, {{report}, config.mlflow_log_model}, reporter.log());
    });
}

RunLogger::RunLogger(const OutputConfig& config, bool leads, const Device& device, Log& log)
    : config_(config),
      device_(device),
      log_(log),
      leads_(leads),
      gpu_meter_(leads ? device.uuid : ""),
      reporter_(log) {}

void RunLogger::start(RunStart start, const std::vector<std::string>& warnings) {
  add_sinks(warnings);
  reporter_.start(std::move(start));
  cpu_ = {};
}

void RunLogger::resume(RunStart start, const std::vector<std::string>& warnings,
                       const ResumedRecord& from) {
  if (!leads_ && from.record.empty()) return this->start(std::move(start), warnings);
  const double first_start = parse_run(from.record).start.time;
  Interruption stop{.time = start.time,
                    .epoch = from.epoch,
                    .step = from.step,
                    .checkpoint_time = from.checkpoint_time,
                    .num_ranks = start.num_ranks,
                    .host = start.host};
  if (leads_)
    note_lost_work(find_record(std::filesystem::path(config_.log_path) / kRunFileName, first_start),
                   &stop);
  add_sinks(warnings);
  reporter_.resume(std::move(start), from.record, stop);
  const RunEnd& so_far = reporter_.run().end;
  end_.saved_epoch = so_far.saved_epoch;
  end_.start_to_first_step_seconds = so_far.start_to_first_step_seconds;
  end_.peak_memory_bytes = so_far.peak_memory_bytes;
  end_.peak_device_bytes = so_far.peak_device_bytes;
  seconds_before_ = so_far.total_seconds + stop.lost_seconds;
  cpu_ = {};
}

std::string RunLogger::record_text() const {
  return reporter_.record_text() + usage_line(end_so_far());
}

void RunLogger::add_sinks(const std::vector<std::string>& warnings) {
  if (leads_) add_run_sinks(config_, repeat_, reporter_);
  reporter_.add(
      [&] { return make_console(log_, std::filesystem::path(config_.log_path) / kReportName); });
  for (const std::string& warning : warnings)
    leads_ ? log_.warning(warning) : log_.info("warning: " + warning);
}

void RunLogger::planned(PlannedLength length) {
  length.time = unix_seconds();
  reporter_.planned(length);
}

void RunLogger::step(StepRecord record) {
  record.time = unix_seconds();
  gpu_meter_.sample();
  if (leads_) reporter_.step(record);
}

void RunLogger::progress(const StepRecord& timing) {
  if (end_.start_to_first_step_seconds == 0)
    end_.start_to_first_step_seconds = seconds_since_process_start();
  if (memory_)
    if (const std::string text = memory_->after_step(); !text.empty())
      leads_ ? log_.warning(text) : log_.info("warning: " + text);
  if (time_limit_s_ == 0) return reporter_.progress(timing);
  StepRecord limited = timing;
  limited.most_seconds_left = std::max(0.0, time_limit_s_ - seconds_used());
  reporter_.progress(limited);
}

void RunLogger::validating(int epoch, int step, int num_steps) {
  StepRecord at;
  at.epoch = epoch;
  at.num_epochs = reporter_.run().start.num_epochs;
  at.step = step;
  at.num_steps = num_steps;
  reporter_.validating(at);
}

void RunLogger::epoch(EpochRecord record, const ValidationDetails* details) {
  record.time = unix_seconds();
  const RunEnd so_far = end_so_far();
  record.peak_memory_bytes = so_far.peak_memory_bytes;
  record.peak_device_bytes = so_far.peak_device_bytes;
  record.gpu = gpu_meter_.take_average();
  if (!device_.is_cuda) record.cpu_share = cpu_.take_share(at::get_num_threads());
  if (details != nullptr) end_.saved_epoch = record.epoch;
  reporter_.epoch(record, details);
}

void RunLogger::stopped_early(const std::string& reason, const std::string& line) {
  end_.stopped_early = reason;
  log_.info(line);
}

void RunLogger::saving(std::vector<ImageFaultRecord> image_faults) {
  end_.image_faults = std::move(image_faults);
  end_ = end_so_far();
}

std::string RunLogger::training_json() const {
  return format_training_json(reporter_.run(), end_);
}

void RunLogger::saved() {
  end_.model_path = config_.trained_model_path;
  end(end_.stopped_early == "signal" ? RunStatus::kStopped : RunStatus::kFinished);
}

void RunLogger::nothing_saved() {
  log_.info("No epoch was finished, so no model is written.");
  end(RunStatus::kStopped);
}

void RunLogger::failed(const std::exception_ptr& failure) {
  end_.failure = report_failure(failure).messages.front();
  end(RunStatus::kFailed);
}

void RunLogger::end(RunStatus status) {
  end_ = end_so_far();
  end_.status = status;
  end_.time = unix_seconds();
  reporter_.end(end_);
}

RunEnd RunLogger::end_so_far() const {
  RunEnd end = end_;
  end.peak_memory_bytes = std::max<long long>(end.peak_memory_bytes, peak_memory_bytes());
  end.peak_device_bytes = std::max<long long>(end.peak_device_bytes, peak_device_memory(device_));
  end.total_seconds = seconds_used();
  return end;
}

}  // namespace kiln
