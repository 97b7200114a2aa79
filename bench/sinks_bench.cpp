// kiln_sinks_bench RUN LOGS: tells a run that was recorded (its --log-path) once more, at the pace
// it had, to the sinks that `kiln train --log-path LOGS` would have, and prints how long the
// training thread was held up, and the processor time that telling took on all threads. Every epoch
// is told as one whose model is kept, which is the dearest.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "record/run_file.h"
#include "run/run_logger.h"

namespace {

using Clock = std::chrono::steady_clock;

template <typename Call>
double seconds_of(Call&& call) {
  const auto begin = Clock::now();
  call();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// The steps of each epoch and then its end, each when it was told the first time.
void tell_again(const kiln::RunRecord& run, const kiln::OutputConfig& config) {
  kiln::Log log;
  log.use_standard_error();
  kiln::RunReporter reporter(log);
  std::vector<double> steps, epochs;
  const double processor_before = processor_seconds();
  const auto begin = Clock::now();
  const auto wait_until = [&](double time) {
    std::this_thread::sleep_until(begin +
                                  std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(time - run.start.time)));
  };
  const double start = seconds_of([&] {
    add_run_sinks(
        config, [] { return std::string(); }, reporter);
    reporter.start(run.start);
  });
  auto step = run.steps.begin();
  for (const kiln::EpochRecord& epoch : run.epochs) {
    for (; step != run.steps.end() && step->epoch == epoch.epoch; ++step) {
      wait_until(step->time);
      steps.push_back(seconds_of([&] { reporter.step(*step); }));
    }
    wait_until(epoch.time);
    epochs.push_back(seconds_of([&] { reporter.epoch(epoch, &run.details); }));
  }
  wait_until(run.end.time);
  const double end = seconds_of([&] { reporter.end(run.end); });
  std::printf(
      "{\"held_up_seconds\": %.6f, \"processor_seconds\": %.6f, \"run_seconds\": %.3f, "
      "\"step_seconds\": %.7f, \"start_seconds\": %.4f, \"epoch_seconds\": %.6f, "
      "\"end_seconds\": %.4f}\n",
      sum(steps) + sum(epochs), processor_seconds() - processor_before,
      run.end.time - run.start.time, sum(steps) / static_cast<double>(steps.size()), start,
      *std::max_element(epochs.begin(), epochs.end()), end);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    kiln::OutputConfig config;
    config.log_path = argv[2];
    std::filesystem::create_directories(config.log_path);
    tell_again(kiln::read_run(argv[1]), config);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "%s\n", fault.what());
    return 1;
  }
  return 0;
}
