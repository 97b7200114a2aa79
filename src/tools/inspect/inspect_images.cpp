#include "tools/inspect/inspect_images.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/dataset.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "data/image/image.h"
#include "data/loader/batch_loader.h"
#include "data/split/groups.h"
#include "model/catalogue.h"
#include "record/run_summary.h"
#include "run/inputs/image_sizes.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

using Report = InspectReport;

constexpr std::size_t kMaxSizesTold = 10;

// Without a fault: the image is good.
BadImage check_image(Dataset& set, std::uint32_t i) try {
  std::string bytes;
  read_image_bytes(set, i, bytes);
  set.samples.set_content(i, bytes);
  const DecodedImage decoded = decode_image(bytes, set.exif);
  return {.sample = i, .fault = decoded.damage, .damaged = !decoded.damage.empty()};
} catch (const ImageFault& fault) {
  return {.sample = i, .fault = fault.what()};
}

// Adds the bad and damaged images to `report`. Returns the number of bad ones.
int check_images(Dataset& set, Report& report) {
  set.samples.keep_hashes();
  std::vector<BadImage> results(set.samples.size());
  in_parallel(results.size(), usable_cpus(),
              [&](std::size_t i) { results[i] = check_image(set, static_cast<std::uint32_t>(i)); });
  int bad = 0, damaged = 0;
  Report faults = Report::array();
  for (const BadImage& result : results) {
    if (result.fault.empty()) continue;
    ++(result.damaged ? damaged : bad);
    faults.push_back({{"file", set.samples[result.sample].file_name},
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
    set.for_each_class(item.label, [&](int id) { ++counts.at(id); });
    unlabeled += item.label < 0;
  }
  report["num_classes"] = set.classes.size();
  report["unlabeled_images"] = unlabeled;
  Report& classes = report["classes"] = Report::array();
  for (std::size_t i = 0; i < counts.size(); ++i)
    classes.push_back({{"id", i}, {"name", set.classes[i]}, {"images", counts[i]}});
}

void report_sizes(Dataset& set, Report& report) {
  std::map<std::pair<int, int>, std::int64_t> counts;
  std::int64_t unreadable = 0;
  scan_sizes(set, SizesWanted::kAll);
  for (const Sample& item : set.samples)
    ++(item.size ? counts[{item.size->width, item.size->height}] : unreadable);
  std::vector<std::pair<std::pair<int, int>, std::int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::ranges::greater{}, [](auto& it) { return it.second; });
  report["num_sizes"] = sorted.size();
  report["exif"] = exif_name(set.exif);
  report["turned_images"] = turned_images(set, SIZE_MAX).turned;
  report["unreadable_headers"] = unreadable;
  Report& sizes = report["most_common_sizes"] = Report::array();
  for (std::size_t i = 0; i < std::min(kMaxSizesTold, sorted.size()); ++i) {
    const auto& [size, images] = sorted[i];
    sizes.push_back({{"width", size.first}, {"height", size.second}, {"images", images}});
  }
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

// The number and the size of the files that a job would have to fetch. Sizes are read in parallel;
// files that cannot be read count as empty.
void report_stored_files(const Dataset& set, Report& report) {
  std::size_t count = set.archives.size();
  std::atomic<std::uint64_t> bytes = 0;
  for (const ImageArchive& archive : set.archives) {
    const bool is_root = archive.name.empty() || set.kind == Dataset::Kind::kLabelList;
    std::error_code fault;
    const std::uint64_t size = fs::file_size(is_root ? set.root : set.root / archive.name, fault);
    bytes += fault ? 0 : size;
  }
  if (set.archives.empty()) {
    count = set.samples.size();
    in_parallel(count, kScanThreads,
                [&](std::size_t i) { bytes += stored_bytes(set, i).value_or(0); });
  }
  report["stored_files"] = count;
  report["stored_bytes"] = bytes.load();
}

// Adds the images that are also in the validation data. Returns the number of different pictures
// among them.
int report_leaks(const InspectConfig& config, Dataset& set, Report& report) {
  if (config.valid_data_path.empty()) return 0;
  Dataset valid =
      read_dataset(config.valid_data_path, "Validation images", of_sets(config.records, {"valid"}));
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
  for (std::string note :
       {note_of_unused(config.records, {&set, &valid}), note_of_torn_groups(set, valid)})
    if (!note.empty()) report["notes"].push_back(std::move(note));
  for (const std::string& note : valid.notes)
    report["notes"].push_back("of the validation images: " + note);
  report["validation_images"] = valid.samples.size();
  report["leaks"] = std::move(leaks);
  return static_cast<int>(found.size());
}

}  // namespace

int inspect_images(const InspectConfig& config, InspectReport& report) {
  const fs::path path = config.path;
  Dataset set = read_dataset(
      path, "Folder",
      config.valid_data_path.empty() ? config.records : of_sets(config.records, {"train"}));
  report["kind"] = form_text(set);
  report["path"] = path.string();
  report["images"] = set.samples.size();
  std::map<std::string_view, std::size_t> counts;  // by the sets of a list
  for (const Sample& image : set.samples)
    if (image.set != ListedSet::kNone) ++counts[set_name(image.set)];
  for (const auto& [name, count] : counts) report["sets"][std::string(name)] = count;
  report_classes(set, report);
  report_sizes(set, report);
  if (config.valid_data_path.empty()) report_unused(config.records, set);
  report["notes"] = set.notes;
  if (const std::string advice = depth_advice(set); !advice.empty())
    report["notes"].push_back("no class folders directly in it. " + advice);
  const std::optional<double> cut =
      share_cut_away(set, automatic_size({&set}, KnownNetwork{}.side()).size);
  report["cut_away"] = cut ? Report(*cut) : Report();
  if (cut.value_or(0) > kMuchCutAway)
    report["notes"].push_back(cut_text(*cut) + ": see --fit of kiln train");
  report_stored_files(set, report);
  const int bad = config.check ? check_images(set, report) : 0;
  const int leaks = report_leaks(config, set, report);
  if (std::string note = note_of_contradictions(set, hashes_of(set.samples)); !note.empty())
    report["notes"].push_back(std::move(note));
  return bad + leaks;
}

}  // namespace kiln
