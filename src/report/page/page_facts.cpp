// The factual sections of a run's report: time breakdown and what would make it faster,
// interruptions, warnings, data, and everything needed to repeat the run.
#include <algorithm>
#include <array>
#include <numeric>

#include "base/text.h"
#include "record/run_summary.h"
#include "report/page/chart.h"
#include "report/page/html.h"
#include "report/page/page.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxItems = 50, kMaxFaults = 200;  // per list
constexpr std::size_t kMaxClasses = 1000;
constexpr std::size_t kMaxText = 500;  // characters per item

// Returns "and 12 more" if there are more than `most`; otherwise empty.
std::string more(std::size_t count, std::size_t most = kMaxItems) {
  return count <= most ? "" : element("p", formatted("and %zu more", count - most));
}

std::string value_html(const std::string& value) {
  return value.empty() ? "–" : name_html(value, kMaxText);
}

std::string pairs_table(const std::string& caption, const std::string& what,
                        const TextPairs& pairs) {
  std::vector<Cells> rows;
  for (const auto& [name, value] : pairs) rows.push_back({escaped(name), value_html(value)});
  if (rows.empty()) return "";
  return table(caption, {text_column(what), text_column(what.empty() ? "" : "value")}, rows);
}

std::string fault_table(const std::vector<ImageFaultRecord>& faults) {
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < std::min(faults.size(), kMaxFaults); ++i)
    rows.push_back({value_html(faults[i].file), escaped(faults[i].data_set),
                    value_html(faults[i].fault), faults[i].damaged ? "partially" : "no"});
  if (rows.empty()) return "";
  return table("Faulty images",
               {text_column("file"), text_column("of"), text_column("fault"), text_column("used")},
               rows) +
         more(faults.size(), kMaxFaults);
}

std::string folded_settings(const TextPairs& options, const TextPairs& versions) {
  return folded("All options", pairs_table("Options", "option", options)) +
         folded("Versions", pairs_table("Versions", "part", versions));
}

std::string count_table(const DataRecord& data) {
  const auto& counts = data.train_counts;
  const auto largest = counts.empty() ? 1 : std::max(1LL, *std::ranges::max_element(counts));
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < std::min(data.classes.size(), kMaxClasses); ++i) {
    const auto label = static_cast<int>(i);
    const long long images = count_of(counts, label);
    rows.push_back({name_html(class_name(data, label)),
                    element(formatted("span class=\"bar\" style=\"--value:%.1f%%\"",
                                      share_of(100 * static_cast<double>(images), largest)),
                            grouped(images)),
                    grouped(count_of(data.valid_counts, label))});
  }
  return table("Images by class", {text_column("class"), "training", "validation"}, rows);
}

std::string size_text(int height, int width, int short_side) {
  std::string text = formatted("%d × %d pixels", width, height);
  if (short_side > 0) text += formatted(", short side to %d, then cropped", short_side);
  return text;
}

std::string imbalance_text(const std::vector<long long>& counts) {
  if (counts.empty()) return "unknown";
  const auto [smallest, largest] = std::minmax_element(counts.begin(), counts.end());
  const std::string text = grouped(*smallest) + " to " + grouped(*largest) + " images per class";
  return *smallest > 0 ? text + formatted(" (1 : %.3g)", share_of(*largest, *smallest)) : text;
}

// What the time of an epoch was spent on, in the order of the stack, bottom first.
struct Part {
  const char* name;
  int color;
};
constexpr std::size_t kNumParts = 7;
constexpr std::array<Part, kNumParts> kParts = {{{"waiting for images", 1},
                                                 {"forward", 4},
                                                 {"backward", 0},
                                                 {"waiting for other ranks", 3},
                                                 {"optimizer", 2},
                                                 {"other training", 7},
                                                 {"validation", 6}}};
using PartSeconds = std::array<double, kNumParts>;

PartSeconds parts_of(const EpochRecord& epoch) {
  const StepTimes& times = epoch.times;
  const double told =
      times.data_wait + times.forward + times.backward + times.communication + times.optimizer;
  return {times.data_wait,     times.forward,   times.backward,
          times.communication, times.optimizer, std::max(0.0, epoch.train_seconds - told),
          epoch.valid_seconds};
}

// A bar of the chart: one epoch, or several consecutive ones. `parts`: mean seconds per epoch.
struct Bar {
  int first_epoch = 0, last_epoch = 0;
  PartSeconds parts{};

  double height(std::size_t num_parts) const {
    return std::accumulate(parts.begin(), parts.begin() + num_parts, 0.0);
  }
};

std::vector<Bar> bars_of(const std::vector<EpochRecord>& epochs) {
  constexpr std::size_t kMaxBars = 100;
  const std::size_t in_one = (epochs.size() + kMaxBars - 1) / kMaxBars;
  std::vector<Bar> bars;
  for (std::size_t begin = 0; begin < epochs.size(); begin += in_one) {
    const std::size_t end = std::min(begin + in_one, epochs.size());
    Bar& bar = bars.emplace_back(Bar{epochs[begin].epoch, epochs[end - 1].epoch});
    for (std::size_t i = begin; i < end; ++i) {
      const PartSeconds parts = parts_of(epochs[i]);
      for (std::size_t part = 0; part < kNumParts; ++part)
        bar.parts[part] += parts[part] / static_cast<double>(end - begin);
    }
  }
  return bars;
}

std::string part_svg(const std::vector<Bar>& bars, std::size_t part, const ChartFrame& frame) {
  std::string path, xs, ys;
  for (const Bar& bar : bars) {
    const double gap = 0.1;
    const double left = frame.left(bar.first_epoch - 1 + gap);
    const double right = frame.left(bar.last_epoch - gap);
    const double bottom = frame.top(bar.height(part)), top = frame.top(bar.height(part + 1));
    path += formatted("M%.1f %.1fH%.1fV%.1fH%.1fz", left, bottom, right, top, left);
    xs += formatted(xs.empty() ? "%.6g" : " %.6g", (bar.first_epoch - 1 + bar.last_epoch) / 2.0);
    ys += formatted(ys.empty() ? "%.6g" : " %.6g", bar.parts[part]);
  }
  return element(formatted("g class=\"stack c%d\" data-name=\"%s\" data-x=\"", kParts[part].color,
                           kParts[part].name) +
                     xs + "\" data-y=\"" + ys + "\"",
                 "<path d=\"" + path + "\"/>") +
         "\n";
}

// Returns the share of each part in the time of all epochs.
PartSeconds shares_of(const std::vector<EpochRecord>& epochs) {
  PartSeconds shares{};
  for (const EpochRecord& epoch : epochs)
    for (std::size_t part = 0; part < kNumParts; ++part) shares[part] += parts_of(epoch)[part];
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= all;
  return shares;
}

// `shown`: indices of the parts that took a noticeable time.
std::string time_chart(const std::vector<Bar>& bars, const std::vector<std::size_t>& shown) {
  std::vector<double> heights = {0};
  for (const Bar& bar : bars) heights.push_back(bar.height(kNumParts));
  const ChartFrame frame = ChartFrame::of(bars.back().last_epoch, 1, heights);
  std::string stacks;
  for (const std::size_t part : shown) stacks += part_svg(bars, part, frame);
  return frame.html("Seconds of each epoch by activity. The table below lists the values.", stacks);
}

std::string time_table(const std::vector<Bar>& bars, const std::vector<std::size_t>& shown) {
  std::vector<Column> columns = {"epoch"};
  for (const std::size_t part : shown) columns.push_back(std::string(kParts[part].name) + " (s)");
  std::vector<Cells> rows;
  for (const Bar& bar : bars) {
    Cells cells = {std::to_string(bar.first_epoch)};
    if (bar.last_epoch != bar.first_epoch) cells[0] += "–" + std::to_string(bar.last_epoch);
    for (const std::size_t part : shown) cells.push_back(formatted("%.2f", bar.parts[part]));
    rows.push_back(cells);
  }
  return table("Seconds by epoch", columns, rows);
}

}  // namespace

std::string interruptions_html(const RunRecord& run) {
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < std::min(run.interruptions.size(), kMaxItems); ++i) {
    const Interruption& stop = run.interruptions[i];
    rows.push_back({utc_text(stop.time), utc_text(stop.checkpoint_time),
                    formatted("epoch %d, step %d", stop.epoch, stop.step),
                    stop.last_seen > 0 ? grouped(stop.lost_steps) : "unknown",
                    stop.last_seen > 0 ? duration_text(stop.lost_seconds) : "unknown",
                    value_html(stop.host), std::to_string(stop.num_ranks)});
  }
  if (rows.empty()) return "";
  return section(
      "interruptions", "Interruptions",
      table("Where the run resumed after a stop",
            {text_column("resumed"), text_column("from the checkpoint of"), text_column("at"),
             "steps repeated", "time repeated", text_column("host"), "ranks"},
            rows) +
          more(run.interruptions.size()));
}

std::string warnings_html(const RunRecord& run) {
  std::string items;
  for (std::size_t i = 0; i < std::min(run.warnings.size(), kMaxItems); ++i)
    items += element("li", escaped(shortened(run.warnings[i], kMaxText))) + "\n";
  std::string html = items.empty() ? "" : element("ul", items) + more(run.warnings.size());
  html += fault_table(run.end.image_faults);
  if (html.empty()) html = element("p", "None.");
  return section("warnings", "Warnings", html);
}

std::string data_html(const RunRecord& run) {
  const DataRecord& data = run.start.data;
  const RunSummary summary = summary_of(run);
  const TextPairs facts = {
      {"training images", grouped(summary.num_train) + ", in " + data.train_path},
      {"validation images", grouped(summary.num_valid) + ", in " + data.valid_path},
      {"classes", grouped(data.classes.size())},
      {"balance", imbalance_text(data.train_counts)},
      {"fit", data.fit + (data.cut_away ? "; " + cut_text(*data.cut_away) : "")},
      {"training size", size_text(data.image_height, data.image_width, data.resize_short_side)},
      {"validation size",
       size_text(data.eval_height, data.eval_width, data.eval_resize_short_side)},
      {"augmentation", data.augment},
      {"normalization", data.normalization + formatted(": mean %.3g %.3g %.3g, std %.3g %.3g %.3g",
                                                       data.mean[0], data.mean[1], data.mean[2],
                                                       data.std[0], data.std[1], data.std[2])}};
  return section("data", "Data",
                 pairs_table("Data", "", facts) + folded("Images by class", count_table(data)));
}

std::string faults_section(const std::vector<ImageFaultRecord>& faults) {
  return section("faults", "Bad and damaged images", fault_table(faults));
}

std::string settings_section(const TextPairs& options, const TextPairs& versions) {
  return section("settings", "Settings", folded_settings(options, versions));
}

// A command whose lines break only between options.
std::string command_html(const std::string& command) {
  constexpr std::string_view kNext = "</span> <span>";
  std::string html = escaped(command);
  for (std::size_t at = 0; (at = html.find(" --", at)) != html.npos; at += kNext.size())
    html.replace(at, 1, kNext);
  return element("code id=\"command\"", element("span", html));
}

std::string settings_html(const RunRecord& run) {
  const RunStart& start = run.start;
  TextPairs results;
  if (!run.end.model_path.empty()) results.emplace_back("model written to", run.end.model_path);
  if (run.end.peak_memory_bytes > 0)
    results.emplace_back("peak memory", bytes_text(run.end.peak_memory_bytes));
  if (run.end.peak_device_bytes > 0)
    results.emplace_back("peak GPU memory", bytes_text(run.end.peak_device_bytes));
  if (!start.precision.empty())
    results.emplace_back("precision", start.precision + " (" + start.precision_reason + ")");
  results.emplace_back("images per step", std::to_string(start.global_batch));
  results.emplace_back("steps per epoch", std::to_string(start.steps_per_epoch));
  if (const std::string text = value_of(start.plan, kTimeLimitLabel); !text.empty())
    results.emplace_back(kTimeLimitLabel, text);
  return section(
      "again", "Reproduce",
      element("p", prose("This command began the run. `kiln train --config repeat.yaml`, with the "
                         "file of this name beside the log and with other folders for "
                         "`--trained-model-path` and `--log-path`, repeats it with what it decided "
                         "on its way.")) +
          element("pre tabindex=\"0\"", command_html(start.command)) +
          pairs_table("The run", "", results) + folded_settings(start.options, start.versions));
}

std::string time_html(const RunRecord& run) {
  const std::vector<Rung> rungs = speed_ladder(run);
  if (rungs.empty()) return "";
  const std::vector<Bar> bars = bars_of(run.epochs);
  const PartSeconds shares = shares_of(run.epochs);
  constexpr double kLeast = 0.0005;
  std::vector<std::size_t> shown;
  for (std::size_t part = 0; part < kNumParts; ++part)
    if (shares[part] > kLeast) shown.push_back(part);
  const std::string figure =
      bars.size() < 2
          ? ""
          : element("figure class=\"chart\"",
                    element("figcaption", element("h3", "Seconds per epoch")) +
                        time_chart(bars, shown) + folded("Values", time_table(bars, shown)));
  std::string words;
  if (const std::string load = load_text(run.epochs); !load.empty())
    words += element("p id=\"load\"", "Load: " + load + ".");
  if (const std::string cost = cost_text(run); !cost.empty())
    words += element("p id=\"cost\"", "Cost: " + cost + ".");
  std::string ladder;
  bool is_next = true;  // until the first rung that is worth it
  for (const Rung& rung : rungs) {
    ladder += element(rung.is_worth_it && is_next ? "li class=\"next\"" : "li", prose(rung.text));
    is_next = is_next && !rung.is_worth_it;
  }
  std::string legend;
  for (const std::size_t part : shown)
    legend += element(formatted("li class=\"c%d\"", kParts[part].color),
                      std::string(kParts[part].name) + " " + element("b", percent(shares[part])));
  words += element("ul class=\"legend stacked\"", legend) +
           element("h3", "How to make it faster, in this order") +
           element("ol id=\"ladder\"", ladder);
  return section("time", "Time breakdown",
                 element("div class=\"charts\"", element("div", words) + figure));
}

namespace {

// Thresholds beyond which a change is worth suggesting.
constexpr double kMuchWaiting = 0.1;     // waiting for images / training time
constexpr double kMuchSumming = 0.15;    // waiting for all-reduce / training time
constexpr double kMuchValidation = 0.4;  // validation time / total time
constexpr double kBusy = 0.8;            // GPU utilization above which the GPU is well used
constexpr double kIdle = 0.3;            // GPU utilization below which a slower GPU would do
constexpr double kFewCores = 0.85;       // CPU time / that of all compute threads

Rung loader_rung(const RunSummary& summary) {
  const double share = summary.times.data_wait / summary.train_seconds;
  const std::string measured = "Loading: " + percent(share) + " of training waited for images";
  if (share <= kMuchWaiting) return {false, measured + ", which is little."};
  return {true, measured +
                    ". First try more `--loader-threads`, `--cache`, or `kiln pack --short-side`."};
}

// `waits`: the compute threads are idle because images are missing.
Rung processor_rung(double share, bool waits) {
  const bool is_worth_it = share < kFewCores && !waits;
  return {is_worth_it, "Processors: the compute threads ran for " + percent(share) +
                           " of the time" +
                           (is_worth_it ? ". Other programs or a CPU limit took the rest: give the "
                                          "run its own cores, or raise the limit."
                                        : ".")};
}

// Returns a sentence, with a leading space, on the price per hour below which a CPU-only machine is
// cheaper than this one, whose GPU is mostly idle. Empty if its price or speed is unknown.
std::string cheaper_processor(const RunRecord& run, double images_per_second) {
  const double price = price_per_hour(run.start);
  if (price == 0 || !(images_per_second > 0)) return "";
  return " A machine without a GPU is cheaper if it costs less than " +
         price_text(100 * price / images_per_second) +
         " per hour for every 100 images/s of training: one epoch of `kiln train` there "
         "measures them.";
}

// `busy`: GPU utilization, 0 to 1. `waits`: training waits for images. Either way a faster device
// would not help a GPU that is mostly idle.
Rung device_rung(const RunRecord& run, const RunSummary& summary, std::optional<double> busy,
                 bool waits) {
  const bool was_on_gpu = run.end.peak_device_bytes > 0 ||
                          std::ranges::any_of(run.epochs, [](const EpochRecord& epoch) {
                            return epoch.gpu.has_value() || epoch.peak_device_bytes > 0;
                          });
  if (!was_on_gpu)
    return {true, "Device: this was a CPU; a GPU trains networks many times faster."};
  const bool is_fp32 = run.start.precision == "fp32";
  if (busy && *busy < kIdle)
    return {true, std::string("Device: a slower and cheaper GPU, or CPUs (`--device cpu`), ") +
                      (waits ? "would keep up with the loader."
                             : "may train this network as fast: try them.") +
                      (is_fp32 ? " The work is too small for mixed precision to help." : "") +
                      cheaper_processor(run, summary.images_per_second)};
  if (is_fp32) return {true, "Device: `--precision auto` uses the GPU's tensor cores."};
  return {busy && *busy >= kBusy,
          std::string("Device: a faster GPU") +
              (busy ? "." : "; this one does not tell how busy it was (a MIG slice?).")};
}

Rung machine_rung(const RunRecord& run, const RunSummary& summary) {
  if (run.start.num_ranks == 1)
    return {true,
            "A bigger machine: one rank on each GPU (`--ranks auto`), or several hosts (`kiln "
            "launch --hosts`)."};
  const double share = summary.times.communication / summary.train_seconds;
  std::string ranks = value_of(run.start.plan, kRanksLabel);  // "4 on hosts a, b; …"
  ranks.resize(std::min({ranks.find(';'), ranks.find(", each"), ranks.size()}));
  if (ranks.empty()) ranks = std::to_string(run.start.num_ranks);
  const std::string measured =
      "More ranks: " + ranks + " waited for all-reduce for " + percent(share) + " of training";
  if (share <= kMuchSumming) return {true, measured + "; more would still help."};
  return {true, measured + ". First try `--accumulate` or a larger `--batch-size`."};
}

}  // namespace

std::vector<Rung> speed_ladder(const RunRecord& run) {
  const RunSummary summary = summary_of(run);
  if (!(summary.train_seconds > 0)) return {};
  const auto [busy, watts, cpu] = mean_load(run.epochs);
  std::vector<Rung> rungs = {loader_rung(summary)};
  if (const double share = summary.valid_seconds / (summary.train_seconds + summary.valid_seconds);
      share > kMuchValidation)
    rungs.push_back({true, "Validation: " + percent(share) +
                               " of the time. A smaller validation set takes less."});
  if (cpu > 0) rungs.push_back(processor_rung(cpu, rungs.front().is_worth_it));
  if (busy)
    rungs.push_back(
        {*busy < kBusy, "Batch: the GPU was busy for " + percent(*busy) + " of the time." +
                            (*busy < kBusy ? " A larger `--batch-size` makes better use "
                                             "of it."
                                           : "")});
  rungs.push_back(device_rung(run, summary, busy, rungs.front().is_worth_it));
  rungs.push_back(machine_rung(run, summary));
  return rungs;
}

}  // namespace kiln
