#include "tools/inspect/inspect_images.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "base/system.h"
#include "base/text.h"
#include "data/dataset/dataset.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/image_index.h"
#include "data/image/image.h"
#include "data/split/groups.h"
#include "tools/inspect/inspect_forecast.h"
#include "tools/sagemaker/input_mode.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

using Report = InspectReport;

constexpr std::size_t kMaxSizesTold = 10;

struct CheckResult {
  std::string fault;  // empty: the image is good
  bool damaged = false;
};

CheckResult check_image(const Dataset& set, std::size_t i) {
  try {
    std::string bytes;
    read_image_bytes(set, i, bytes);
    const DecodedImage decoded = decode_image(bytes, set.exif);
    return {decoded.damage, !decoded.damage.empty()};
  } catch (const ImageFault& fault) {
    return {fault.what(), false};
  }
}

// Adds the bad and damaged images to `report`. Returns the number of bad ones.
int check_images(const Dataset& set, Report& report) {
  std::vector<CheckResult> results(set.samples.size());
  in_parallel(results.size(), usable_cpus(),
              [&](std::size_t i) { results[i] = check_image(set, i); });
  int bad = 0, damaged = 0;
  Report faults = Report::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const CheckResult& result = results[i];
    if (result.fault.empty()) continue;
    ++(result.damaged ? damaged : bad);
    faults.push_back({{"file", set.samples[i].file_name},
                      {"state", result.damaged ? "damaged" : "bad"},
                      {"fault", result.fault}});
  }
  report["bad_images"] = bad;
  report["damaged_images"] = damaged;
  report["faults"] = std::move(faults);
  return bad;
}

void report_classes(const Dataset& set, Report& report) {
  std::vector<std::int64_t> counts(set.classes.size());
  std::int64_t unlabeled = 0;
  for (const Sample& item : set.samples) {
    ++(item.label < 0 ? unlabeled : counts.at(static_cast<std::size_t>(item.label)));
  }
  report["num_classes"] = set.classes.size();
  report["unlabeled_images"] = unlabeled;
  Report classes = Report::array();
  for (std::size_t i = 0; i < counts.size(); ++i)
    classes.push_back({{"id", i}, {"name", set.classes[i]}, {"images", counts[i]}});
  report["classes"] = std::move(classes);
}

void report_sizes(Dataset& set, Report& report) {
  std::map<std::pair<int, int>, std::int64_t> counts;
  std::int64_t unreadable = 0;
  scan_sizes(set, SizesWanted::kAll);
  for (const Sample& item : set.samples) {
    if (item.size) {
      ++counts[{item.size->width, item.size->height}];
    } else {
      ++unreadable;
    }
  }
  std::vector<std::pair<std::pair<int, int>, std::int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  report["num_sizes"] = sorted.size();
  report["exif"] = exif_name(set.exif);
  report["turned_images"] = turned_images(set, SIZE_MAX).turned;
  report["unreadable_headers"] = unreadable;
  Report sizes = Report::array();
  for (std::size_t i = 0; i < std::min(kMaxSizesTold, sorted.size()); ++i) {
    const auto& [size, images] = sorted[i];
    sizes.push_back({{"width", size.first}, {"height", size.second}, {"images", images}});
  }
  report["most_common_sizes"] = std::move(sizes);
}

// "record files (TFRecord)".
std::string form_text(const Dataset& set) {
  if (set.kind != Dataset::Kind::kRecords) return describe(set.kind);
  std::size_t num_tfrecord = 0;
  for (std::size_t i = 0; i < set.samples.size(); ++i)
    num_tfrecord += set.samples.member(i)->packing == ArchiveMember::Packing::kTfRecord ? 1U : 0U;
  const char* form = num_tfrecord == set.samples.size() ? "TFRecord"
                     : num_tfrecord == 0                ? "RecordIO"
                                                        : "TFRecord and RecordIO";
  return describe(set.kind) + " (" + form + ")";
}

void report_input_mode(const Dataset& set, Report& report) {
  const StoredFiles files = stored_files(set);
  const InputMode mode = fitting_mode(files);
  report["stored_files"] = files.count;
  report["stored_bytes"] = files.bytes;
  report["sagemaker_mode"] = mode.name;
  report["mode_reason"] = mode.reason;
}

// Adds the images that are also in the validation data. Returns the number of different pictures
// among them.
int report_leaks(const InspectConfig& config, Dataset& set, Report& report) {
  if (config.valid_data_path.empty()) return 0;
  Dataset valid = read_dataset(config.valid_data_path, "Validation images", config.records);
  valid.exif = set.exif;
  const std::vector<Leak> found = leaks_between(set, valid, {.num_threads = usable_cpus()});
  Report leaks = Report::array();
  for (const Leak& leak : found) {
    Report of_train = Report::array(), of_valid = Report::array();
    for (const std::size_t i : leak.images) {
      const bool trains = i < set.samples.size();
      const SampleTable& samples = trains ? set.samples : valid.samples;
      const std::string_view name = samples.file_name(trains ? i : i - set.samples.size());
      (trains ? of_train : of_valid).push_back(printable(name));
    }
    leaks.push_back({{"same_bytes", leak.same_bytes}, {"train", of_train}, {"valid", of_valid}});
  }
  if (set.samples.size() + valid.samples.size() > kMaxDecodedImages)
    report["notes"].push_back(formatted(
        "with more than %zu images only byte-identical duplicates are found", kMaxDecodedImages));
  for (const std::string& note : valid.notes)
    report["notes"].push_back("of the validation images: " + note);
  report["validation_images"] = valid.samples.size();
  report["leaks"] = std::move(leaks);
  return static_cast<int>(found.size());
}

void report_forecast(const InspectConfig& config, Dataset& set, Report& report) {
  if (config.pace.model_name.empty()) return;
  const TrainingForecast forecast = forecast_training(config, set);
  if (!config.json) {
    report["forecast"] = forecast_text(forecast, config);
    return;
  }
  report["forecast"] = {{"model_name", config.pace.model_name},
                        {"image_size", {forecast.size.height, forecast.size.width}},
                        {"batch_size", config.pace.batch_size},
                        {"images_per_second", forecast.images_per_second},
                        {"epoch_seconds", forecast.epoch_seconds},
                        {"epochs", config.epochs},
                        {"run_seconds", forecast.run_seconds},
                        {"peak_memory_bytes", forecast.peak_memory_bytes}};
}

}  // namespace

int inspect_images(const InspectConfig& config, InspectReport& report) {
  const fs::path path = config.path;
  Dataset set = read_dataset(path, "Folder", config.records);
  report["kind"] = form_text(set);
  report["path"] = path.string();
  report["images"] = set.samples.size();
  report_input_mode(set, report);
  report_classes(set, report);
  report_sizes(set, report);
  report["notes"] = set.notes;
  if (const std::string advice = depth_advice(set); !advice.empty())
    report["notes"].push_back("no class folders directly in it. " + advice);
  const int bad = config.check ? check_images(set, report) : 0;
  const int leaks = report_leaks(config, set, report);
  report_forecast(config, set, report);
  return bad + leaks;
}

}  // namespace kiln
