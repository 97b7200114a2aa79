#include "run/predecessor.h"

#include <sys/stat.h>

#include <cmath>
#include <exception>
#include <system_error>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/output_folder.h"
#include "base/platform/launch_environment.h"
#include "base/text.h"
#include "cli/paths.h"
#include "record/earlier_run.h"
#include "record/run_file.h"
#include "record/run_json.h"
#include "record/run_summary.h"
#include "store/model_directory.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

ModelFacts facts_of(const std::string& training_json) {
  ModelFacts facts;
  try {
    const Json json = parse_ordered_json(training_json);
    facts.started = json.at("started").get<double>();
    facts.images = json.value("validation_fingerprint", "");
    for (const Json& epoch : json.at("epochs")) {
      if (epoch.at("epoch") != json.at("saved_epoch")) continue;
      const bool has_map = epoch.contains("mean_average_precision");
      facts.figure = has_map ? "mean average precision" : "top-1";
      facts.value = epoch.at(has_map ? "mean_average_precision" : "top1").get<double>();
    }
  } catch (const std::exception&) {
  }
  return facts;
}

// Those of the model in a folder.
ModelFacts facts_in(const fs::path& folder) try {
  return facts_of(read_file(folder / "training.json"));
} catch (const std::exception&) {
  return {};
}

// "3 classes ('cat', 'dog', 'owl'), top-1 93.3 %, of the run that began 2026-…". Empty if there is
// no model.
std::string description_of(const fs::path& folder) {
  constexpr std::size_t kShown = 3;
  struct stat written {};
  if (::stat((folder / kMetaFile).c_str(), &written) != 0) return {};
  std::vector<std::string> parts;
  try {
    const std::vector<std::string> labels =
        parse_label_map(read_file(folder / "index_to_label.csv"));
    parts.push_back(plural(std::ssize(labels), "class", "classes") + " (" +
                    quoted_names(labels, kShown) + ")");
  } catch (const std::exception&) {  // untrained, or written by another program
  }
  const ModelFacts facts = facts_in(folder);
  if (!std::isnan(facts.value)) parts.push_back(facts.figure + " " + percent(facts.value));
  parts.push_back(facts.started > 0 ? "of the run that began " + utc_text(facts.started)
                                    : "written " + utc_text(written.st_mtim.tv_sec));
  return joined(parts, ", ");
}

// Finishes what a killed run had begun to put in place.
void finish_interrupted(const fs::path& folder) try {
  read_model_spec(folder);
} catch (const std::exception&) {  // no model, or reading it will say why
}

}  // namespace

bool holds_model_of(const std::string& model_directory, double started) {
  const fs::path folder = model_directory;
  return started > 0 && is_there(folder / kMetaFile) && facts_in(folder).started == started;
}

Predecessor::Predecessor(const TrainConfig& config, double resumed)
    : model_(config.output.trained_model_path), logs_(config.output.log_path) {
  finish_interrupted(model_);
  const std::string model = description_of(model_);
  if (model.empty() || holds_model_of(model_, resumed)) return;
  facts_ = facts_in(model_);
  const std::string kept = decide(config);
  news_ = "This run will replace the model in '" + model_.string() + "': " + model + "." +
          (kept.empty() ? "" : " " + kept);
}

void set_best_aside(const std::string& log_path, double resumed, Log& log) {
  const fs::path best = fs::path(log_path) / kBestOfRun;
  const std::string model = description_of(best), aside = best.string() + ".before";
  if (model.empty() || holds_model_of(best, resumed)) return;
  std::error_code fault;
  if (may_hold_model(aside)) fs::remove_all(aside, fault);
  fs::rename(best, aside, fault);
  if (!fault)
    log.info("The best epoch of a run that did not end is kept in '" + aside + "': " + model + ".");
}

std::string Predecessor::decide(const TrainConfig& config) {
  const fs::path before = path_of_before(model_);
  if (before.empty() || collects_outputs() || !config.output.kfp_executor_input.empty()) return {};
  const std::string place = "'" + before.string() + "'";
  if (!may_hold_model(before)) return place + " holds other files, so it will not be kept there.";
  const fs::path logs_before = path_of_before(logs_);
  const DataConfig& data = config.data;
  for (const std::string& input : {data.network.weights, data.untrained_model_path, data.train_path,
                                   data.split.file, data.split.labels, config.options_file})
    for (const fs::path& kept : {before, logs_before})
      if (lies_inside(input, kept))
        return "'" + kept.string() + "' stays as it is, since this run reads it.";
  finish_interrupted(before);
  const ModelFacts earlier = facts_in(before);
  if (facts_.started > 0 && facts_.started == earlier.started) {
    place_ = place;
    return "It is kept in " + place + ".";
  }
  if (earlier.is_comparable(facts_) && earlier.value > facts_.value)
    return place +
           " keeps its model, which is better on the same validation images: " + earlier.figure +
           " " + percent(earlier.value) + ".";
  place_ = place;
  model_before_ = before;
  logs_before_ = logs_before;
  return "It will be kept in " + place + ".";
}

void Predecessor::keep_logs(double started, Log& log) const try {
  keep_earlier_run(logs_, started, logs_before_);
} catch (const std::exception& failure) {
  log.warning("The logs of the earlier run could not all be kept: " + std::string(failure.what()));
}

void Predecessor::keep_model(Log& log) const try {
  if (model_before_.empty()) return;
  keep_directory(model_, model_before_);
} catch (const std::exception& failure) {
  log.warning("The model that this run replaces could not be kept: " + std::string(failure.what()));
}

std::string Predecessor::beside(const std::string& training_json) const {
  if (news_.empty()) return {};
  const ModelFacts now = facts_of(training_json);
  std::string text = facts_.images.empty() ? "an earlier model" : "one validated on other images";
  if (facts_.is_comparable(now)) {
    const double points = 100 * (now.value - facts_.value);
    text = facts_.figure + " " + percent(facts_.value) + " on the same images, " +
           (points == 0 ? "as good as this model"
                        : formatted("%.1f points %s than this model", std::abs(points),
                                    points < 0 ? "better" : "worse"));
  }
  return text + (place_.empty() ? ", which is not kept" : "; kept in " + place_);
}

}  // namespace kiln
