#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "base/url.h"
#include "cli/options.h"
#include "data/stream/record_stream.h"
#include "parallel/device/device.h"
#include "record/run_summary.h"
#include "run/prepare/repeat_file.h"
#include "tools/commands.h"
#include "tools/launch/mpirun_job.h"
#include "tools/tune/search.h"
#include "train/precision.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// For the job's file and the outputs of trials.
TemporaryFolder scratch_folder() try {
  return TemporaryFolder("kiln-tune");
} catch (const std::system_error& fault) {
  throw Error(ErrorCode::kFailedToWriteOutputs, "No folder for trials can be created in '" +
                                                    fs::temp_directory_path().string() +
                                                    "': " + system_words(fault.code().value()) +
                                                    ". Set TMPDIR to a writable folder.");
}

// The job with what the trials have found, without its outputs, and without what --recipe sets,
// which may follow from how long it trains.
std::string text_of_job(const TrainConfig& config, const Trial& best = {}) {
  Settings job = config.settings;
  for (const auto& [option, value] : best) job = job.found(option, value, "kiln tune");
  return config_text(job, [](const Setting& setting) {
    const Option& option = *setting.option;
    return setting.origin != Origin::kRecipe &&
           (!option.is_for_one_run || option.name == options::kRecipe ||
            option.name == options::kTimeLimit);
  });
}

bool has(const Trial& settings, const std::string& option) {
  return std::ranges::count(settings, option, &Trial::value_type::first) > 0;
}

// The settings that may be varied. Those that the user has chosen are left alone.
std::vector<Knob> knobs_of(const TuneConfig& config) {
  const int cores = usable_cpus(), batch = config.train.optimization.batch_size;
  const int gpus =
      config.train.ranks.device == DeviceChoice::kCpu ? 0 : ask_nvidia_driver().num_devices;
  Knob precision{"precision", {}}, ranks{"ranks", {}}, threads{"threads", {}},
      loader_threads{"loader-threads", {}};
  if (gpus > 0 || cpu_has_bf16_units())
    precision.candidates = {{{"precision", gpus > 0 ? "auto" : "bf16"}}};
  else
    precision.not_tried = "this CPU has no bf16 units";
  // Divides the job's batch among the ranks, so that the model learns the same.
  const int most = gpus > 0 ? gpus : cores;
  for (int count = 2; count <= most; count *= 2)
    if (batch > 0 && batch % count == 0)
      ranks.candidates.push_back({{"ranks", std::to_string(count)},
                                  {"batch-size", std::to_string(batch / count)},
                                  {"lr-scaling", "none"}});
  if (find_on_path("mpirun").empty())
    ranks = {"ranks", {}, "mpirun is not installed"};
  else if (ranks.candidates.empty())
    ranks.not_tried = most == 1 ? "there is only one device" : "the batch size is odd or auto";
  if (gpus > 0)
    threads.not_tried = "the GPU does the computing";
  else if (cores == 1)
    threads.not_tried = "there is one processor";
  else
    threads.candidates = {{{"threads", std::to_string(cores / 2)}}};
  for (const int count : {1, cores})
    if (loader_threads.candidates.empty() || count > 1)
      loader_threads.candidates.push_back({{"loader-threads", std::to_string(count)}});
  std::vector<Knob> knobs = {precision, ranks, threads, loader_threads};
  for (Knob& knob : knobs)
    if (config.train.settings.is_given(knob.name)) knob = {knob.name, {}, "given"};
  return knobs;
}

class Tuner {
  static constexpr std::array kBatchFactors = {2, 4};
  static constexpr auto kOtherTrials = 2 + kBatchFactors.size();  // two trials confirm the fastest
  static constexpr std::array kRateFactors = {0.1, 0.3, 1.0, 3.0, 10.0};  // of learning rates
  static constexpr double kHopeful = 0.9;  // of the best rate: slower trials end early

 public:
  Tuner(const TuneConfig& config, Log& log)
      : config_(config), log_(log), job_file_(scratch_.path() / "job.yaml") {
    write_file_durably(job_file_, text_of_job(config.train));
  }

  // The fastest settings; empty if a stop signal ended the search.
  std::optional<Trial> run() {
    const std::vector<Knob> knobs = knobs_of(config_);
    Search search(knobs);
    const int most = search.num_candidates() + kOtherTrials +
                     (config_.learning_rates ? std::ssize(kRateFactors) : 0);
    log_.info(formatted("Up to %d short trials of the job follow.", most + 1));
    log_.info(formatted("%8s  %8s  %10s  settings", "images/s", "ratio", "memory"));
    while (const std::optional<Trial> settings = search.next()) {
      const Stopwatch watch;
      const TrialResult outcome = measure(*settings, kHopeful * search.best_rate());
      if (outcome.was_stopped) return std::nullopt;
      log_trial(*settings, outcome, search.first_rate());
      if (search.first_rate() == 0) {
        require_running(outcome);
        resolve(outcome.start);
        log_.info("The others take about " + duration_text(most * watch.seconds()) + ".");
      }
      search.add(outcome);
    }
    for (const Knob& knob : knobs)
      if (!knob.not_tried.empty())
        log_.info("Not tried: " + knob.name + " (" + knob.not_tried + ").");
    const bool is_faster = confirm(search);
    const Trial best = same_learning(is_faster ? search.best() : Trial());
    log_larger_batches(best, is_faster ? search.best_rate() : search.first_rate());
    if (stop_signal() != 0) return std::nullopt;
    return best;
  }

  // `settings` with the learning rate that has the lowest loss after the same number of steps.
  // Empty if a stop signal ended the search.
  std::optional<Trial> learning_rate(const Trial& settings) {
    const int steps = config_.steps > 0 ? config_.steps : 30;  // as many for every rate
    Trial best;
    double least = std::numeric_limits<double>::infinity();
    for (const double factor : kRateFactors) {
      Trial rate = {{"learning-rate", formatted("%.3g", learning_rate_ * factor)}};
      if (has(resolved_, "auto")) rate.insert(rate.end(), resolved_.front());
      const TrialResult outcome = measure(changed(settings, rate), 0, steps);
      if (outcome.was_stopped) return std::nullopt;
      log_.info(outcome.fault.empty() ? formatted("learning rate %-8s loss %.4f",
                                                  rate[0].second.c_str(), outcome.loss)
                                      : "learning rate " + rate[0].second + ": " + outcome.fault);
      if (!outcome.fault.empty() || !(outcome.loss < least)) continue;  // NaN is no loss
      best = rate;
      least = outcome.loss;
    }
    return changed(settings, best);
  }

 private:
  // Keeps what the job resolves by the batch of one process, and what is resolved otherwise beside
  // a given learning rate.
  void resolve(const RunStart& start) {
    learning_rate_ = std::stod(option_of(start, "learning-rate"));
    if (option_of(start, "auto") == "True") resolved_.emplace_back("auto", "True");
    for (const char* name : {"learning-rate", "weight-decay"})
      resolved_.emplace_back(name, option_of(start, name));
  }

  // Smaller batches learn with the rates of the job as given.
  Trial same_learning(const Trial& settings) const {
    return has(settings, "ranks") ? changed(resolved_, settings) : settings;
  }

  TrialResult measure(const Trial& settings, double least_rate = 0, int steps = 0) const {
    TrialPlan plan{.words = {fs::read_symlink("/proc/self/exe").string(), "train", "--config",
                             job_file_.string()},
                   .log_path = scratch_.path() / "logs",
                   .model_path = scratch_.path() / "model",
                   .steps = std::max(steps, config_.steps),
                   .least_rate = least_rate};
    Trial all = same_learning(settings);
    all.emplace_back("trained-model-path", plan.model_path.string());
    all.emplace_back("log-path", plan.log_path.string());
    all.emplace_back("print-freq", "5");
    // The job's file omits a URL that contains a secret.
    if (const std::string& weights = config_.train.data.network.weights;
        without_secrets(weights) != weights)
      all.emplace_back("weights", weights);
    for (const auto& [option, value] : all) plan.words.push_back("--" + option + "=" + value);
    return run_trial(plan, [] { return stop_signal() != 0; });
  }

  void log_trial(const Trial& settings, const TrialResult& result, double first_rate) {
    if (!result.fault.empty()) {
      log_.info(formatted("%8s  %8s  %10s  ", "-", "-", "-") + settings_text(settings) + ": " +
                result.fault);
      return;
    }
    const double ratio = first_rate > 0 ? result.images_per_second / first_rate : 1;
    const std::string memory =
        result.peak_memory_bytes > 0 ? bytes_text(result.peak_memory_bytes) : "-";
    log_.info(formatted("%8.1f  %8.2f  %10s  ", result.images_per_second, ratio, memory.c_str()) +
              settings_text(settings));
  }

  void require_running(const TrialResult& result) const {
    if (result.fault.empty()) return;
    throw Error(ErrorCode::kUserError, "The job cannot be measured: " + result.fault +
                                           " `kiln train` with the same options tells more.");
  }

  // Measures both the job as given and the best settings again, so as not to keep a lucky trial.
  bool confirm(const Search& search) {
    if (search.best().empty()) {
      log_.info("Nothing was faster than the job as given.");
      return false;
    }
    const TrialResult fastest = measure(search.best()), given = measure({});
    if (fastest.was_stopped || given.was_stopped) return false;
    const double ratio = fastest.images_per_second / given.images_per_second;
    log_.info(formatted("Measured again: %.2f x the speed of the job as given.", ratio));
    if (ratio > 1) return true;
    log_.info("So nothing was faster than the job as given.");
    return false;
  }

  // Logs larger batches that fit and are faster, for users who accept a different result.
  void log_larger_batches(const Trial& settings, double rate) {
    if (config_.train.optimization.batch_size == 0) return;
    std::string batch = std::to_string(config_.train.optimization.batch_size);
    for (const auto& [option, value] : settings)
      if (option == "batch-size") batch = value;
    for (const int times : kBatchFactors) {
      if (stop_signal() != 0) return;
      const std::string larger = std::to_string(std::stoll(batch) * times);
      const TrialResult outcome = measure(changed(settings, {{"batch-size", larger}}));
      if (!outcome.fault.empty() || outcome.images_per_second < 1.03 * rate) return;
      rate = outcome.images_per_second;
      log_.info(
          "A larger batch also fits: --batch-size " + larger +
          formatted(" gives %.1f images/s. It would change the result, so it is not used.", rate));
    }
  }

  const TuneConfig& config_;
  Log& log_;
  TemporaryFolder scratch_ = scratch_folder();
  fs::path job_file_;
  double learning_rate_ = 0;  // of the job as given
  Trial resolved_;
};

// What one trial reads from a stream would be missing in the next.
void refuse_streams(const DataConfig& data) {
  for (const auto& [option, path] : {std::pair("--train-data-path", data.train_path),
                                     std::pair("--valid-data-path", data.valid_path)})
    if (is_stream_path(path))
      throw Error(
          ErrorCode::kParameterParsing,
          "kiln tune cannot run this job: " + std::string(option) + " '" + path +
              "' is a stream, which can be read only once, but every trial reads the images from "
              "the start. Tune with files, such as those that `kiln pack` writes.");
}

}  // namespace

int run(const TuneConfig& config, Process& process) {
  refuse_streams(config.train.data);
  require_writable(config.output_path);
  install_stop_signals();
  Tuner tuner(config, process.log);
  std::optional<Trial> best = tuner.run();
  if (best && config.learning_rates) best = tuner.learning_rate(*best);
  if (!best) {
    process.log.info("Stopped: nothing was written.");
    return 128 + stop_signal();
  }
  write_file_durably(config.output_path,
                     "# The job with the fastest settings that `kiln tune` found on this machine:\n"
                     "#   kiln train --config FILE --trained-model-path DIR\n" +
                         text_of_job(config.train, *best));
  process.log.info("Wrote " + quoted_path(config.output_path) + ": " + settings_text(*best) + ".");
  return 0;
}

}  // namespace kiln
