// kiln_sinks_bench RUN LOGS: tells a run that was recorded (its --log-path) once more, to the sinks
// that `kiln train --log-path LOGS` would have, and prints how long the training thread was held
// up.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <utility>
#include <vector>

#include "commands/run_sinks.h"
#include "report/run_file.h"

namespace {

template <typename Call>
double seconds_of(Call&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void tell_again(const kiln::RunRecord& run, const kiln::TrainConfig& config) {
  kiln::Log log;
  log.use_standard_error();
  kiln::RunReporter reporter(log);
  std::vector<double> steps, epochs;
  const double start = seconds_of([&] {
    add_run_sinks(config, &reporter);
    reporter.start(run.start);
  });
  for (const kiln::StepRecord& step : run.steps)
    steps.push_back(seconds_of([&] { reporter.step(step); }));
  for (const kiln::EpochRecord& epoch : run.epochs)
    epochs.push_back(seconds_of([&] {
      reporter.epoch(epoch, epoch.epoch == run.judgement.epoch ? &run.judgement : nullptr);
    }));
  const double end = seconds_of([&] { reporter.end(run.end); });
  std::sort(steps.begin(), steps.end());
  std::printf(
      "{\"step_seconds\": %.7f, \"slowest_step_seconds\": %.7f, \"epoch_seconds\": %.6f, "
      "\"start_seconds\": %.4f, \"end_seconds\": %.4f}\n",
      steps.at(steps.size() / 2), steps.back(), *std::max_element(epochs.begin(), epochs.end()),
      start, end);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    kiln::TrainConfig config;
    config.log_path = argv[2];
    std::filesystem::create_directories(config.log_path);
    tell_again(kiln::read_run(argv[1]), config);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "%s\n", fault.what());
    return 1;
  }
  return 0;
}
