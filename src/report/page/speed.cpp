// What a run's time was spent on, and what would make it faster.
#include <algorithm>

#include "base/text.h"
#include "record/run_cost.h"
#include "record/run_summary.h"
#include "report/page/page.h"

namespace kiln {
namespace {

// Thresholds beyond which a change is worth suggesting.
constexpr double kMuchWaiting = 0.1;     // waiting for images / training time
constexpr double kMuchSumming = 0.15;    // waiting for all-reduce / training time
constexpr double kMuchValidation = 0.4;  // validation time / total time
constexpr double kBusy = 0.8;            // GPU utilization above which the GPU is well used
constexpr double kIdle = 0.3;            // GPU utilization below which a slower GPU would do
constexpr double kFewCores = 0.85;       // CPU time / that of all compute threads

// Returns the mean GPU utilization, 0 to 1; 0 if there is no GPU or it was not measured.
double gpu_share(const std::vector<EpochRecord>& epochs) {
  double percents = 0;
  for (const EpochRecord& epoch : epochs)
    percents += epoch.gpu ? epoch.gpu->utilization_percent : 0;
  return epochs.empty() ? 0 : percents / 100 / static_cast<double>(epochs.size());
}

// Returns the CPU time of a run without a GPU as a share of that of its compute threads; 0 if it
// was not measured.
double cpu_share(const std::vector<EpochRecord>& epochs) {
  double share = 0;
  for (const EpochRecord& epoch : epochs) share += epoch.cpu_share;
  return epochs.empty() ? 0 : share / static_cast<double>(epochs.size());
}

std::string biggest_cost(const StepTimes& times, double train, double all, double validation) {
  if (times.data_wait > kMuchWaiting * train)
    return percent(times.data_wait / train) +
           " of each training step waited for images: more `--loader-threads`, `--cache` or `kiln "
           "pack` would help; see docs/performance.md.";
  if (times.communication > kMuchSumming * train)
    return percent(times.communication / train) +
           " of each training step waited for all-reduce over the ranks: `--gradient-dtype bf16`, "
           "`--accumulate` or a larger `--batch-size` would help.";
  if (validation > kMuchValidation * all)
    return percent(validation / all) +
           " of the time was spent on validation: use a smaller validation set.";
  return "";
}

Rung loader_rung(const RunSummary& summary) {
  const double share = summary.times.data_wait / summary.train_seconds;
  const std::string measured = "Loading: " + percent(share) + " of training waited for images";
  if (share <= kMuchWaiting) return {false, measured + ", which is little."};
  return {true, measured +
                    ". First try more `--loader-threads`, `--cache`, or `kiln pack --short-side` "
                    "once: a faster device would only wait longer."};
}

// `waits`: the compute threads are idle because images are missing.
Rung processor_rung(double share, bool waits) {
  const std::string measured =
      "Processors: the compute threads ran for " + percent(share) + " of the time";
  if (share >= kFewCores || waits) return {false, measured + "."};
  return {true, measured +
                    ". Other programs or a CPU limit took the rest: give the run its own "
                    "cores, or raise the limit."};
}

Rung batch_rung(double busy) {
  const std::string measured = "Batch: the GPU was busy for " + percent(busy) + " of the time";
  if (busy >= kBusy) return {false, measured + "."};
  return {true, measured + ". A larger `--batch-size` makes better use of it."};
}

// Returns a sentence, with a leading space, on the price per hour below which a CPU-only machine is
// cheaper than this one, whose GPU is mostly idle. Empty if the price or speed of this one is
// unknown.
std::string cheaper_processor(const RunRecord& run, double images_per_second) {
  const double price = price_per_hour(run.start);
  if (price == 0 || !(images_per_second > 0)) return "";
  return " A machine without a GPU is cheaper if it costs less than " +
         price_text(100 * price / images_per_second) +
         " per hour for every 100 images/s of training: `kiln inspect` with `--model-name` "
         "measures that there.";
}

// `busy`: GPU utilization, 0 to 1; 0: no GPU. `waits`: training waits for images. Either way a
// faster device would not help a GPU that is mostly idle.
Rung device_rung(const RunRecord& run, const RunSummary& summary, double busy, bool waits) {
  if (busy == 0) return {true, "Device: this was a CPU; a GPU trains networks many times faster."};
  const bool is_fp32 = run.start.precision == "fp32";
  if (busy < kIdle)
    return {true, std::string("Device: a slower and cheaper GPU, or CPUs (`--device cpu`), ") +
                      (waits ? "would keep up with the loader."
                             : "may train this network as fast: try them.") +
                      (is_fp32 ? " The work is too small for mixed precision to help." : "") +
                      cheaper_processor(run, summary.images_per_second)};
  if (is_fp32) return {true, "Device: `--precision auto` uses the GPU's tensor cores."};
  return {busy >= kBusy, "Device: a faster GPU."};
}

Rung machine_rung(const RunRecord& run, const RunSummary& summary) {
  if (run.start.num_ranks == 1)
    return {true,
            "A bigger machine: one rank on each GPU (`--ranks auto`), or several hosts (`kiln "
            "launch --hosts`)."};
  const double share = summary.times.communication / summary.train_seconds;
  std::string ranks = std::to_string(run.start.num_ranks);  // "4 on hosts a, b"
  for (const auto& [label, text] : run.start.plan)
    if (label == kRanksLabel) ranks = text.substr(0, std::min(text.find(';'), text.find(", each")));
  const std::string measured =
      "More ranks: " + ranks + " waited for all-reduce for " + percent(share) + " of training";
  if (share <= kMuchSumming) return {true, measured + "; more would still help."};
  return {
      true,
      measured + ". First try `--gradient-dtype bf16`, `--accumulate` or a larger `--batch-size`."};
}

}  // namespace

std::string time_finding(const RunRecord& run) {
  const RunSummary summary = summary_of(run);
  const double all = summary.train_seconds + summary.valid_seconds;
  if (!(all > 0)) return "";
  const StepTimes& times = summary.times;
  std::string cost = biggest_cost(times, summary.train_seconds, all, summary.valid_seconds);
  if (!cost.empty()) return cost;
  if (const double busy = gpu_share(run.epochs); busy > 0 && busy < kBusy)
    return "The GPU was busy for " + percent(busy) +
           " of the time, and did not wait for images: a larger `--batch-size` would use more of "
           "it.";
  return "Training did not wait for images: " +
         percent(std::max(0.0, 1 - times.data_wait / summary.train_seconds)) +
         " of its time was spent computing. A faster device, more ranks or a smaller model would "
         "speed it up.";
}

std::vector<Rung> speed_ladder(const RunRecord& run) {
  const RunSummary summary = summary_of(run);
  if (!(summary.train_seconds > 0)) return {};
  const double busy = gpu_share(run.epochs);
  std::vector<Rung> rungs = {loader_rung(summary)};
  if (const double share = cpu_share(run.epochs); share > 0)
    rungs.push_back(processor_rung(share, rungs.front().is_worth_it));
  if (busy > 0) rungs.push_back(batch_rung(busy));
  rungs.push_back(device_rung(run, summary, busy, rungs.front().is_worth_it));
  rungs.push_back(machine_rung(run, summary));
  return rungs;
}

}  // namespace kiln
