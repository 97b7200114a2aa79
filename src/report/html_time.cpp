// Where the time of each epoch went, as a stack of its parts.
#include <algorithm>
#include <array>
#include <numeric>

#include "base/text.h"
#include "report/findings.h"
#include "report/html.h"
#include "report/html_sections.h"
#include "report/lines.h"
#include "report/svg_chart.h"

namespace kiln {
namespace {

constexpr std::size_t kNumParts = 7;
constexpr std::array<const char*, kNumParts> kNames = {
    "waiting for images", "forward",        "backward",  "waiting for other ranks",
    "optimizer",          "other training", "validation"};
constexpr std::array<int, kNumParts> kColours = {1, 4, 0, 3, 2, 7, 6};
constexpr std::size_t kMostBars = 100;

// Some epochs that follow each other; the parts are averages in seconds.
struct Bar {
  int first_epoch = 0, last_epoch = 0;
  std::array<double, kNumParts> parts{};
};

std::array<double, kNumParts> parts_of(const EpochRecord& epoch) {
  const StepTimes& times = epoch.times;
  const double told =
      times.data_wait + times.forward + times.backward + times.communication + times.optimizer;
  return {times.data_wait,     times.forward,   times.backward,
          times.communication, times.optimizer, std::max(0.0, epoch.train_seconds - told),
          epoch.valid_seconds};
}

std::vector<Bar> bars_of(const std::vector<EpochRecord>& epochs) {
  const std::size_t in_one = (epochs.size() + kMostBars - 1) / kMostBars;
  std::vector<Bar> bars;
  for (std::size_t begin = 0; begin < epochs.size(); begin += in_one) {
    const std::size_t end = std::min(begin + in_one, epochs.size());
    Bar bar{epochs[begin].epoch, epochs[end - 1].epoch};
    for (std::size_t i = begin; i < end; ++i) {
      const auto parts = parts_of(epochs[i]);
      for (std::size_t part = 0; part < kNumParts; ++part)
        bar.parts[part] += parts[part] / static_cast<double>(end - begin);
    }
    bars.push_back(bar);
  }
  return bars;
}

double height_of(const Bar& bar, std::size_t num_parts) {
  double sum = 0;
  for (std::size_t part = 0; part < num_parts; ++part) sum += bar.parts[part];
  return sum;
}

std::string part_svg(const std::vector<Bar>& bars, std::size_t part, const ChartFrame& frame) {
  std::string path, xs, ys;
  for (const Bar& bar : bars) {
    const double gap = 0.1;
    const double left = frame.left(bar.first_epoch - 1 + gap);
    const double right = frame.left(bar.last_epoch - gap);
    const double bottom = frame.top(height_of(bar, part)),
                 top = frame.top(height_of(bar, part + 1));
    path += formatted("M%.1f %.1fH%.1fV%.1fH%.1fz", left, bottom, right, top, left);
    xs += formatted(xs.empty() ? "%.6g" : " %.6g", (bar.first_epoch - 1 + bar.last_epoch) / 2.0);
    ys += formatted(ys.empty() ? "%.6g" : " %.6g", bar.parts[part]);
  }
  return element(formatted("g class=\"stack c%d\" data-name=\"%s\" data-x=\"", kColours[part],
                           kNames[part]) +
                     xs + "\" data-y=\"" + ys + "\"",
                 "<path d=\"" + path + "\"/>") +
         "\n";
}

using Shown = std::vector<std::size_t>;  // the parts that took any time to speak of

// Of the time of all epochs.
std::array<double, kNumParts> shares_of(const std::vector<EpochRecord>& epochs) {
  std::array<double, kNumParts> shares{};
  for (const EpochRecord& epoch : epochs)
    for (std::size_t part = 0; part < kNumParts; ++part) shares[part] += parts_of(epoch)[part];
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= all;
  return shares;
}

Shown worth_showing(const std::array<double, kNumParts>& shares) {
  constexpr double kLeast = 0.0005;
  Shown shown;
  for (std::size_t part = 0; part < kNumParts; ++part)
    if (shares[part] > kLeast) shown.push_back(part);
  return shown;
}

std::string time_chart(const std::vector<Bar>& bars, const Shown& shown) {
  std::vector<double> heights = {0};
  for (const Bar& bar : bars) heights.push_back(height_of(bar, kNumParts));
  const auto last = static_cast<double>(bars.back().last_epoch);
  ChartFrame frame{round_scale(0, last, 6, 1), value_scale(heights), Unit::kPlain};
  frame.x.high = last;
  std::string stacks;
  for (const std::size_t part : shown) stacks += part_svg(bars, part, frame);
  return frame.svg(
      "Seconds of each epoch by what they went into. The values are in the table below.", stacks);
}

std::string legend(const std::array<double, kNumParts>& shares, const Shown& shown) {
  std::string items;
  for (const std::size_t part : shown)
    items += element(formatted("li class=\"c%d\"", kColours[part]),
                     std::string(kNames[part]) + " " + element("b", percent(shares[part])));
  return element("ul class=\"legend stacked\"", items);
}

std::string time_table(const std::vector<Bar>& bars, const Shown& shown) {
  std::vector<Column> columns = {{"epoch"}};
  for (const std::size_t part : shown) columns.push_back({std::string(kNames[part]) + " (s)"});
  std::vector<std::vector<std::string>> rows;
  for (const Bar& bar : bars) {
    std::vector<std::string> cells = {std::to_string(bar.first_epoch)};
    if (bar.last_epoch != bar.first_epoch) cells[0] += "–" + std::to_string(bar.last_epoch);
    for (const std::size_t part : shown) cells.push_back(formatted("%.2f", bar.parts[part]));
    rows.push_back(cells);
  }
  return table("Seconds by epoch", columns, rows);
}

}  // namespace

std::string time_html(const RunRecord& run) {
  const std::string finding = time_finding(run);
  if (finding.empty()) return "";
  const std::vector<Bar> bars = bars_of(run.epochs);
  const auto shares = shares_of(run.epochs);
  const Shown shown = worth_showing(shares);
  const std::string figure =
      element("figure class=\"chart\"", element("figcaption", element("h3", "Seconds per epoch")) +
                                            time_chart(bars, shown) +
                                            folded("Values", time_table(bars, shown)));
  const std::string words = element("p", prose(finding)) + legend(shares, shown);
  return section("time", "Where the time went",
                 element("div class=\"charts\"", element("div", words) + figure));
}

}  // namespace kiln
