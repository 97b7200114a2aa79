#include "record/run_summary.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "base/url.h"

namespace kiln {

namespace {

constexpr double kImagesForOne = 1.5;  // out of folds

// As for independent images of which there are `images_for_one` times fewer.
Interval interval_of(std::int64_t hits, std::int64_t count, double images_for_one) {
  if (count <= 0) return {};
  constexpr double kZ = 1.959963984540054;  // the normal distribution's 97.5 % quantile
  const double share = share_of(hits, count), n = static_cast<double>(count) / images_for_one;
  const double center = (share + kZ * kZ / (2 * n)) / (1 + kZ * kZ / n);
  const double reach =
      kZ / (1 + kZ * kZ / n) * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n));
  return {hits == 0 ? 0 : std::max(0.0, center - reach),
          hits == count ? 1 : std::min(1.0, center + reach)};
}

}  // namespace

Interval wilson_interval(std::int64_t hits, std::int64_t count) {
  return interval_of(hits, count, 1);
}

Interval out_of_fold_interval(std::int64_t hits, std::int64_t count) {
  return interval_of(hits, count, kImagesForOne);
}

double independent_images(const RunRecord& run, const EpochRecord& epoch) {
  return epoch.valid.count / (run.details.out_of_fold.is_validation ? kImagesForOne : 1);
}

bool is_above_chance(std::int64_t hits, std::int64_t count, double guessing, double level) {
  const auto n = static_cast<double>(count), k = static_cast<double>(hits);
  if (count <= 0 || guessing >= 1 || k <= guessing * n) return false;
  if (guessing <= 0) return true;
  // The chance of `hits` or more: each term from the one before it, until they no longer count.
  double term = std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                         k * std::log(guessing) + (n - k) * std::log1p(-guessing));
  double chance = 0;
  for (double i = k; i <= n && term > chance * 1e-12; ++i) {
    chance += term;
    term *= (n - i) / (i + 1) * guessing / (1 - guessing);
  }
  return chance < level;
}

// "40 steps (2 min 3 s)"; empty if nothing was lost.
static std::string lost_text(long long steps, double seconds) {
  if (steps <= 0 && !(seconds > 0)) return "";
  const std::string text = plural(steps, "step", "steps");
  return seconds > 0 ? text + " (" + duration_text(seconds) + ")" : text;
}

std::vector<Figure> figures_of(const EpochRecord& epoch) {
  if (!epoch.figures.empty()) return epoch.figures;
  const MacroScores macro = epoch.macro.value_or(MacroScores{NAN, NAN});
  return {{"top1", "Top-1 validation accuracy", "top1 acc", epoch.valid.top1_accuracy(), true},
          {"top5", "Top-5 validation accuracy", "top5 acc", epoch.valid.top5_accuracy()},
          {"macro_recall", "Validation/macro recall", "", macro.recall},
          {"macro_f1", "Validation/macro F1", "", macro.f1}};
}

std::string counted_name(const EpochRecord& epoch) {
  for (const Figure& figure : epoch.figures)
    if (figure.is_counted) return figure.line;
  return "top-1";
}

std::string short_title(const Figure& figure) {
  return figure.title.substr(figure.title.find('/') + 1);
}

JudgedEpoch judged(const EpochRecord& epoch, BestBy by) {
  const std::string name = by == BestBy::kMap       ? "mean_average_precision"
                           : by == BestBy::kMacroF1 ? "macro_f1"
                                                    : "macro_recall";
  for (const Figure& figure : figures_of(epoch))
    if (figure.name == name) return {epoch.valid, figure.value};
  return {epoch.valid, 0};
}

static bool leads(const EpochRecord& epoch, const EpochRecord& other) {
  const double mine = figures_of(epoch).front().value, theirs = figures_of(other).front().value;
  return mine != theirs ? mine > theirs : epoch.valid.loss() < other.valid.loss();
}

RunSummary summary_of(const RunRecord& run) {
  RunSummary summary;
  double images = 0;
  for (const EpochRecord& epoch : run.epochs) {
    if (summary.best == nullptr || leads(epoch, *summary.best)) summary.best = &epoch;
    summary.last = &epoch;
    images += static_cast<double>(epoch.train.count);
    summary.train_seconds += epoch.train_seconds;
    summary.valid_seconds += epoch.valid_seconds;
    summary.times += epoch.times;
  }
  summary.kept = kept_epoch(run);
  if (summary.kept == nullptr) summary.kept = summary.best;
  if (summary.kept != nullptr) {
    const Totals& valid = summary.kept->valid;
    const auto interval =
        run.details.out_of_fold.is_validation ? out_of_fold_interval : wilson_interval;
    summary.top1_interval = interval(valid.top1, valid.count);
    summary.top5_interval = interval(valid.top5, valid.count);
  }
  if (summary.train_seconds > 0) summary.images_per_second = images / summary.train_seconds;
  summary.seconds = run.end.total_seconds > 0 ? run.end.total_seconds
                                              : last_time(run) - run.start.time - idle_seconds(run);
  const auto &train = run.start.data.train_counts, &valid = run.start.data.valid_counts;
  summary.num_train = std::accumulate(train.begin(), train.end(), 0LL);
  summary.num_valid = std::accumulate(valid.begin(), valid.end(), 0LL);
  const TaskWords& words = run.start.data.words;
  if (words.train_images > 0) summary.num_train = words.train_images;
  if (words.valid_images > 0) {
    summary.num_valid = words.valid_images;
  } else if (summary.num_valid > 0) {
    const auto largest = std::ranges::max_element(valid);
    summary.largest_class = static_cast<int>(largest - valid.begin());
    summary.largest_share = share_of(*largest, summary.num_valid);
  }
  if (!run.epochs.empty())
    summary.num_valid_in_train = run.epochs.front().valid_in_train.value_or(0);
  return summary;
}

double last_time(const RunRecord& run) {
  double time = run.start.time;
  if (!run.steps.empty()) time = std::max(time, run.steps.back().time);
  if (!run.epochs.empty()) time = std::max(time, run.epochs.back().time);
  if (!run.interruptions.empty()) time = std::max(time, run.interruptions.back().time);
  return time;
}

double idle_seconds(const RunRecord& run) {
  double seconds = 0;
  for (const Interruption& stop : run.interruptions)
    seconds += std::max(0.0, stop.time - std::max(stop.last_seen, stop.checkpoint_time));
  return seconds;
}

std::string resume_text(const Interruption& interruption) {
  std::string text = formatted("epoch %d, step %d", interruption.epoch, interruption.step);
  if (interruption.checkpoint_time > 0)
    text += ", from a checkpoint of " + utc_text(interruption.checkpoint_time);
  const std::string lost = lost_text(interruption.lost_steps, interruption.lost_seconds);
  return lost.empty() ? text : text + "; " + lost + " to repeat";
}

std::string interruptions_text(const RunRecord& run) {
  const std::size_t count = run.interruptions.size();
  if (count == 0) return "";
  constexpr long long kMaxSteps = 1LL << 50;  // records are not trusted: avoids overflow
  long long steps = 0;
  double seconds = 0;
  for (const Interruption& stop : run.interruptions) {
    steps = std::min(kMaxSteps, steps + std::min(kMaxSteps, stop.lost_steps));
    seconds += stop.lost_seconds;
  }
  const std::string lost = lost_text(steps, seconds);
  return formatted(count == 1 ? "once" : "%zu times", count) +
         (lost.empty() ? "" : "; " + lost + " repeated");
}

double plausible_silence(const RunRecord& run) {
  constexpr double kLeast = 600, kBeforeTheFirstStep = 3600;
  std::vector<double> times = {run.start.time}, resumed;
  for (const StepRecord& step : run.steps) times.push_back(step.time);
  for (const EpochRecord& epoch : run.epochs) times.push_back(epoch.time);
  for (const Interruption& stop : run.interruptions) resumed.push_back(stop.time);
  times.insert(times.end(), resumed.begin(), resumed.end());
  std::erase_if(times, [](double time) { return !std::isfinite(time); });
  std::sort(times.begin(), times.end());
  std::vector<double> gaps;  // without the pauses before a resume
  for (std::size_t i = 1; i < times.size(); ++i)
    if (std::ranges::count(resumed, times[i]) == 0) gaps.push_back(times[i] - times[i - 1]);
  if (gaps.empty()) return kBeforeTheFirstStep;
  // Allows the first validation as much time as the run has taken so far: it takes less.
  const double all = run.epochs.empty() ? std::accumulate(gaps.begin(), gaps.end(), 0.0) : 0;
  std::sort(gaps.begin(), gaps.end());
  return std::max({kLeast, 20 * gaps[gaps.size() / 2], 3 * gaps.back(), all});
}

const EpochRecord* kept_epoch(const RunRecord& run) {
  const int number = run.end.saved_epoch > 0 ? run.end.saved_epoch : run.details.epoch;
  const auto kept = std::ranges::find(run.epochs, number, &EpochRecord::epoch);
  return kept == run.epochs.end() ? nullptr : &*kept;
}

std::string status_text(const RunEnd& end) {
  if (end.status == RunStatus::kFinished && !end.stopped_early.empty())
    return end.stopped_early == "time-limit" ? "ended by the time limit" : "stopped early";
  constexpr const char* kTexts[] = {"running or killed", "finished", "stopped by a signal",
                                    "failed"};
  return kTexts[static_cast<std::size_t>(end.status)];
}

std::string peak_memory_text(const RunEnd& end) {
  return bytes_text(end.peak_memory_bytes) +
         (end.peak_device_bytes > 0 ? ", GPU " + bytes_text(end.peak_device_bytes) : "");
}

MeanLoad mean_load(const std::vector<EpochRecord>& epochs) {
  const auto mean = [&](double GpuLoad::*load) {
    return mean_of(epochs, [&](auto& epoch) { return epoch.gpu ? (*epoch.gpu).*load : NAN; });
  };
  MeanLoad load{.cpu = mean_of(epochs, [](auto& epoch) { return epoch.cpu_share; })};
  if (const double percents = mean(&GpuLoad::utilization_percent); !std::isnan(percents))
    load = {percents / 100, mean(&GpuLoad::power_watts), load.cpu};
  return load;
}

std::string load_text(const std::vector<EpochRecord>& epochs) {
  const auto [gpu, watts, cpu] = mean_load(epochs);
  if (gpu)
    return formatted("GPU %.0f %%", 100 * *gpu) + (watts > 0 ? formatted(", %.0f W", watts) : "");
  return cpu > 0 ? formatted("%.0f %% of the compute threads' time on the processor", 100 * cpu)
                 : "";
}

std::string run_title(const RunStart& start) {
  std::filesystem::path folder = start.data.train_path;
  if (!folder.has_filename()) folder = folder.parent_path();
  const std::string name = folder.filename().string();
  // For photos/train, the name is "photos".
  const bool is_part = name == "train" || name == "training";
  const std::string data = is_part ? folder.parent_path().filename().string() : name;
  return (start.model.empty() ? "A model" : start.model) + (data.empty() ? "" : " on " + data);
}

std::string csv_row(std::vector<std::string> fields) {
  for (std::string& field : fields) field = csv_field(field);
  return joined(fields, ",") + "\n";
}

std::string percent(double share) {
  if (!std::isfinite(share)) return "unknown";
  if (share <= 0 || share >= 1) return formatted("%.0f %%", 100 * share);
  return formatted("%.1f %%", std::clamp(100 * share, 0.1, 99.9));
}

std::string cut_text(double share) {
  return "a center crop cuts away " + percent(share) + " of a typical image";
}

std::vector<Shortcut> telling(std::vector<Shortcut> shortcuts, double model_gain) {
  std::erase_if(shortcuts, [&](const Shortcut& one) {
    return !(share_of(one.told - one.largest, one.images) > model_gain / 2);
  });
  if (shortcuts.size() > 1 && !shortcuts.back().is_alone) shortcuts.pop_back();
  return shortcuts;
}

std::string shortcuts_text(const std::vector<Shortcut>& shortcuts, double model) {
  const std::vector<std::string> told = list_from(shortcuts, [](const Shortcut& one) {
    return one.fact + (one.is_alone ? " alone tells " : " together tell ") +
           percent(share_of(one.told, one.images));
  });
  const Shortcut& first = shortcuts.front();
  return "Labels can be read without looking at what the images show: " + joined(told, ", ") +
         " of " + grouped(first.images) +
         " (always the largest class: " + percent(share_of(first.largest, first.images)) +
         "; the model: " + percent(model) +
         "). The model may have learned that, and fail on other images: give all classes images "
         "that are alike in this.";
}

std::string utc_text(double unix_seconds) {
  if (!(unix_seconds > 0 && unix_seconds < 253402300800.0)) return "unknown";
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm fields{};
  gmtime_r(&seconds, &fields);
  return formatted("%04d-%02d-%02d %02d:%02d UTC", fields.tm_year + 1900, fields.tm_mon + 1,
                   fields.tm_mday, fields.tm_hour, fields.tm_min);
}

std::string shortened(std::string_view text, std::size_t most) {
  const std::string shown = for_people(text);
  const auto columns = static_cast<int>(most);
  return cut_to(shown, columns) == shown ? shown : cut_to(shown, columns - 1) + "…";
}

std::string class_name(const DataRecord& data, int label) {
  const auto index = static_cast<std::size_t>(label);
  if (label < 0 || index >= data.classes.size()) return "class " + std::to_string(label);
  return data.classes[index].empty() ? "(no name)" : shortened(data.classes[index], 40);
}

std::string quoted_class(const DataRecord& data, int label) {
  return "“" + class_name(data, label) + "”";
}

long long count_of(const std::vector<long long>& counts, int label) {
  return label >= 0 && label < std::ssize(counts) ? counts[static_cast<std::size_t>(label)] : 0;
}

std::vector<ClassScore> scores_by_label(const ConfusionMatrix& matrix) {
  std::vector<ClassScore> scores(matrix.empty() ? 0 : static_cast<std::size_t>(matrix.num_classes));
  for (std::size_t truth = 0; truth < scores.size(); ++truth) {
    scores[truth].label = static_cast<int>(truth);
    for (std::size_t guess = 0; guess < scores.size(); ++guess) {
      const std::int64_t count = matrix.counts[truth * scores.size() + guess];
      scores[truth].images += count;
      scores[guess].guesses += count;
      if (truth == guess) scores[truth].hits = count;
    }
  }
  return scores;
}

std::vector<ClassScore> class_scores(const ConfusionMatrix& matrix) {
  std::vector<ClassScore> scores = scores_by_label(matrix);
  std::ranges::stable_sort(scores, {}, [](const ClassScore& score) {
    return std::tuple(score.images == 0, score.images > 0 ? score.recall() : 0, -score.images);
  });
  return scores;
}

int most_often_taken_for(const ConfusionMatrix& matrix, int truth) {
  int most = -1;
  for (int guess = 0; guess < matrix.num_classes; ++guess)
    if (guess != truth && matrix.at(truth, guess) > 0 &&
        (most < 0 || matrix.at(truth, guess) > matrix.at(truth, most)))
      most = guess;
  return most;
}

std::vector<Confusion> worst_confusions(const ConfusionMatrix& matrix, std::size_t most) {
  std::vector<Confusion> pairs;
  for (int truth = 0; !matrix.empty() && truth < matrix.num_classes; ++truth)
    for (int guess = 0; guess < matrix.num_classes; ++guess)
      if (truth != guess && matrix.at(truth, guess) > 0)
        pairs.push_back({truth, guess, matrix.at(truth, guess)});
  most = std::min(most, pairs.size());
  std::ranges::partial_sort(
      pairs, pairs.begin() + static_cast<std::ptrdiff_t>(most), {},
      [](const Confusion& pair) { return std::tuple(-pair.images, pair.truth, pair.guess); });
  pairs.resize(most);
  return pairs;
}

CondensedMatrix condensed(const ConfusionMatrix& matrix, int most) {
  std::vector<ClassScore> scores = scores_by_label(matrix);
  if (matrix.num_classes > most) {
    std::ranges::stable_sort(scores, std::ranges::greater{}, [](const ClassScore& score) {
      return score.images + score.guesses - 2 * score.hits;
    });
    scores.resize(static_cast<std::size_t>(most - 1));
  }
  CondensedMatrix small;
  for (const ClassScore& score : scores) small.labels.push_back(score.label);
  std::ranges::sort(small.labels);
  const auto num_shown = static_cast<int>(small.labels.size());
  small.num_others = matrix.empty() ? 0 : matrix.num_classes - num_shown;
  std::vector<int> row_of(static_cast<std::size_t>(num_shown + small.num_others), num_shown);
  for (int row = 0; row < num_shown; ++row) row_of[small.labels[row]] = row;
  small.counts = empty_matrix(num_shown + (small.num_others > 0 ? 1 : 0));
  for (int truth = 0; !matrix.empty() && truth < matrix.num_classes; ++truth)
    for (int guess = 0; guess < matrix.num_classes; ++guess)
      small.counts.at(row_of[truth], row_of[guess]) += matrix.at(truth, guess);
  return small;
}

std::string option_of(const RunStart& start, std::string_view name) {
  return value_of(start.options, name);
}

double price_per_hour(const RunStart& start) {
  constexpr double kMaxPrice = 1e6;
  const double price = number_in<double>(option_of(start, "price-per-hour")).value_or(0);
  return price > 0 && price <= kMaxPrice ? price : 0;
}

std::string price_text(double price) {
  constexpr double kSmall = 0.1;
  return formatted(price < kSmall ? "%.4f" : "%.2f", price);
}

std::string cost_text(const RunRecord& run) {
  const double price = price_per_hour(run.start);
  const RunSummary summary = summary_of(run);
  if (price == 0 || !(summary.seconds > 0)) return "";
  constexpr double kHour = 3600;  // seconds
  const double so_far = price * summary.seconds / kHour;
  std::string text = price_text(so_far) + " (" + duration_text(summary.seconds) + " at " +
                     price_text(price) + " an hour)";
  const bool may_go_on =
      run.end.status == RunStatus::kRunning || run.end.status == RunStatus::kStopped;
  if (!may_go_on || run.epochs.empty() || run.steps.empty() || !run.steps.back().seconds_left ||
      static_cast<int>(run.epochs.size()) >= run.start.num_epochs)
    return text;
  const StepRecord& last = run.steps.back();
  const double since_then = std::max(0.0, run.epochs.back().time - last.time);
  const double to_come = std::max(0.0, *last.seconds_left - since_then);
  return text + ", about " + price_text(so_far + price * to_come / kHour) + " in total";
}

// The name of a metric for SageMaker, and in the epoch line.
constexpr std::pair<const char*, const char*> kLogFigures[] = {
    {"train:images_per_second", "train_ips"}, {"train:loss", "train_loss"},
    {"train:error", "train_error"},           {"validation:loss", "valid_loss"},
    {"validation:top1", "top1 acc"},          {"validation:top5", "top5 acc"}};

std::vector<Metric> epoch_metrics(const EpochRecord& epoch) {
  constexpr double kMegabyte = 1e6;
  std::vector<Metric> metrics = {
      {"learning rate", epoch.learning_rate},
      {"Train images per second", epoch.average_images_per_second},
      {"Train loss", epoch.train.loss()},
      {"Train error", 1 - epoch.train.top1_accuracy()},
      {"Valid loss", epoch.valid.loss()},
  };
  const auto add = [&](const std::string& name, double value) { metrics.push_back({name, value}); };
  const std::vector<Figure> figures = figures_of(epoch);
  const auto add_figures = [&](bool of_group) {
    for (const Figure& figure : figures)
      if ((figure.title.find('/') != std::string::npos) == of_group)
        if (!std::isnan(figure.value)) add(figure.title, figure.value);
  };
  add_figures(false);
  add("Rate/images per second of the whole epoch", epoch.train_images_per_second);
  add("Seconds/training", epoch.train_seconds);
  add("Seconds/validation", epoch.valid_seconds);
  add_figures(true);
  const double to_milliseconds = 1000.0 / std::max(1, epoch.num_steps);
  add("Step milliseconds/data wait", epoch.times.data_wait * to_milliseconds);
  add("Step milliseconds/forward", epoch.times.forward * to_milliseconds);
  add("Step milliseconds/backward", epoch.times.backward * to_milliseconds);
  add("Step milliseconds/communication", epoch.times.communication * to_milliseconds);
  add("Step milliseconds/optimizer", epoch.times.optimizer * to_milliseconds);
  add("Memory/peak MB", static_cast<double>(epoch.peak_memory_bytes) / kMegabyte);
  if (epoch.peak_device_bytes > 0)
    add("Memory/GPU peak MB", static_cast<double>(epoch.peak_device_bytes) / kMegabyte);
  if (epoch.gpu) {
    add("GPU/utilization percent", epoch.gpu->utilization_percent);
    add("GPU/power watts", epoch.gpu->power_watts);
  }
  if (epoch.cpu_share > 0) add("CPU/percent of compute threads", 100 * epoch.cpu_share);
  add("Bad images/training", epoch.bad_train_images);
  add("Bad images/validation", epoch.bad_valid_images);
  if (epoch.skipped_steps) add("Skipped steps", *epoch.skipped_steps);
  return metrics;
}

std::vector<Metric> step_metrics(const StepRecord& step) {
  return {{"Step/loss", step.batch.loss()},
          {"Step/learning rate", step.learning_rate},
          {"Step/images per second", step.batch_images_per_second}};
}

std::string metric_definitions() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [name, in_line] : kLogFigures)
    list.push_back({{"Name", name}, {"Regex", std::string(",") + in_line + " ([0-9.eE+-]+)"}});
  return list.dump(2) + "\n";
}

}  // namespace kiln
