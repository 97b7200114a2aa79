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
#include "data/dataset/label_list.h"
#include "data/dataset/listing.h"
#include "data/dataset/notes.h"
#include "data/image/image.h"
#include "data/image/resample.h"
#include "data/loader/batch_loader.h"
#include "data/split/groups.h"
#include "data/transform/image_pipeline.h"
#include "model/catalogue.h"
#include "predict/inference.h"
#include "record/run_summary.h"
#include "report/console.h"
#include "report/page/page.h"
#include "run/inputs/image_sizes.h"
#include "tools/inspect/step_probe.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

using Report = InspectReport;

constexpr std::size_t kImages = 12;
constexpr int kVariants = 6;
constexpr int kLongestSide = 224;  // in pixels, of a picture on the page
constexpr int kQuality = 85;

TransformSpec transform_of(const InspectConfig& config, Dataset& set) {
  TransformSpec plan;
  plan.exif = set.exif;
  plan.augment = *config.augment;
  int side = config.image_size;
  if (side == 0) {
    scan_sizes(set, SizesWanted::kCommon);
    const AutomaticSize chosen = automatic_size({&set});
    plan.output = chosen.size;
    if (chosen.is_stored) return plan;
    side = chosen.size.height;
  }
  plan.output = {side, side};
  plan.short_side = usual_short_side(side);
  return plan;
}

// A JPEG file of the image, reduced if a side is longer than kLongestSide.
std::string picture_of(const Image& image) {
  const ImageSize size = image.size;
  const int longest = std::max(size.height, size.width);
  if (longest <= kLongestSide) return encode_jpeg(image, kQuality);
  const auto scaled = [&](int length) { return std::max(1, length * kLongestSide / longest); };
  return encode_jpeg(resized(image, {scaled(size.height), scaled(size.width)}), kQuality);
}

// Empty for an image that cannot be decoded.
std::optional<AugmentedImage> variants_of(const Dataset& set, std::size_t i,
                                          const TransformSpec& plan, std::uint64_t seed) {
  AugmentedImage shown;
  shown.file = std::string(set.samples.file_name(i));
  shown.label = set.label_text(set.samples.label(i));
  try {
    std::string bytes;
    read_image_bytes(set, i, bytes);
    ImagePipeline pipeline;
    for (int epoch = 1; epoch <= kVariants; ++epoch) {
      Image image{plan.output, std::vector<std::uint8_t>(image_bytes(plan))};
      pipeline.write(bytes, plan, {seed, static_cast<std::uint64_t>(epoch), i},
                     image.pixels.data());
      shown.variants.push_back(picture_of(image));
    }
  } catch (const ImageFault&) {
    return {};
  }
  return shown;
}

AugmentSheet drawn_sheet(const InspectConfig& config) {
  Dataset set = read_dataset(config.path, "Folder", config.records);
  const TransformSpec plan = transform_of(config, set);
  AugmentSheet sheet{.data_path = config.path,
                     .augment = plan.augment,
                     .height = plan.output.height,
                     .width = plan.output.width,
                     .seed = config.random_seed};
  const std::size_t count = set.samples.size(), wanted = std::min(kImages, count);
  std::size_t next = 0;
  for (std::size_t place = 0; place < wanted; ++place) {
    next = std::max(next, place * count / wanted);
    for (bool is_shown = false; !is_shown && next < count; ++next)
      if (auto image =
              variants_of(set, next, plan, static_cast<std::uint64_t>(config.random_seed))) {
        sheet.images.push_back(std::move(*image));
        is_shown = true;
      }
  }
  if (sheet.images.empty())
    throw Error(ErrorCode::kInvalidDataset,
                "None of the images in '" + config.path +
                    "' can be decoded: `kiln inspect --check` shows why.");
  return sheet;
}

constexpr std::size_t kMaxSizesTold = 10;

// Without a fault: the image is good.
BadImage check_image(Dataset& set, std::uint32_t i) {
  try {
    std::string bytes;
    read_image_bytes(set, i, bytes);
    set.samples.note_content(i, bytes);
    const DecodedImage decoded = decode_image(bytes, set.exif);
    return {.sample = i, .fault = decoded.damage, .damaged = !decoded.damage.empty()};
  } catch (const ImageFault& fault) {
    return {.sample = i, .fault = fault.what()};
  }
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

constexpr std::uint64_t kMuch = 50'000'000'000;   // bytes to copy before training begins
constexpr std::uint64_t kLargeFile = 50'000'000;  // bytes
constexpr std::size_t kManyFiles = 10'000;

// Reads file sizes in parallel; files that cannot be read count as empty.
StoredFiles stored_files(const Dataset& set) {
  StoredFiles files;
  if (!set.archives.empty()) {
    files.count = set.archives.size();
    for (const ImageArchive& archive : set.archives) {
      const bool is_root = archive.name.empty() || set.kind == Dataset::Kind::kLabelList;
      std::error_code fault;
      std::uint64_t size = fs::file_size(is_root ? set.root : set.root / archive.name, fault);
      if (fault) size = 0;
      files.bytes += size;
      files.compressed = files.compressed || size != archive.file.size();
    }
    files.in_place = !files.compressed;
    return files;
  }
  files.count = set.samples.size();
  std::atomic<std::uint64_t> bytes = 0;
  in_parallel(files.count, kScanThreads,
              [&](std::size_t i) { bytes += stored_bytes(set, i).value_or(0); });
  files.bytes = bytes;
  return files;
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

ImageSize size_of(const InspectConfig& config, Dataset& set) {
  if (config.image_size > 0) return {config.image_size, config.image_size};
  scan_sizes(set, SizesWanted::kCommon);
  return automatic_size({&set}).size;
}

// If `config.pace` names a network: runs some of its steps on random images (loading would run in
// parallel), with a bar, and reports how long epochs would take, without validation. Throws Error
// kUserError if the network cannot take the images' size.
void report_forecast(const InspectConfig& config, Dataset& set, Log& log, Report& report) {
  StepConfig job = config.pace;
  if (job.model_name.empty()) return;
  const ImageSize size = size_of(config, set);
  job.classes = std::max(2, static_cast<int>(set.classes.size()));
  const KnownNetwork& network = known_network(job.model_name);
  network.require_size(size.height, size.width, "give another --image-size", ErrorCode::kUserError);
  PredictionConfig wanted;
  wanted.device = job.device;
  wanted.precision = choose_precision(job.precision, units_of(choose_device(job.device)),
                                      std::max(size.width, size.height), &network)
                         .precision;
  const Inference inference(wanted);
  const LiveLine live{.columns = live_columns(), .utf8 = locale_is_utf8()};
  const Pace pace = pace_of(
      job, size, inference.precision(), inference.torch_device(),
      [&](double share) { log.progress(share_line("measuring " + job.model_name, share, live)); });
  const double epoch_seconds = static_cast<double>(set.samples.size()) / pace.images_per_second;
  const double run_seconds = epoch_seconds * config.epochs;
  const auto memory = static_cast<long long>(pace.memory_bytes);
  const bool is_scaled = pace.batch_size != job.batch_size || pace.size != size;
  if (config.json)
    report["forecast"] = {{"model_name", job.model_name},
                          {"image_size", {size.height, size.width}},
                          {"batch_size", job.batch_size},
                          {"images_per_second", pace.images_per_second},
                          {"epoch_seconds", epoch_seconds},
                          {"epochs", config.epochs},
                          {"run_seconds", run_seconds},
                          {"peak_memory_bytes", memory},
                          {"measured_image_size", {pace.size.height, pace.size.width}},
                          {"measured_batch_size", pace.batch_size}};
  else
    report["forecast"] =
        formatted("%s at %dx%d pixels, batches of %d: %.1f images/s here, ", job.model_name.c_str(),
                  size.width, size.height, job.batch_size, pace.images_per_second) +
        duration_text(epoch_seconds) + " per epoch, " + duration_text(run_seconds) + " for " +
        plural(config.epochs, "epoch", "epochs") + ", without validation; " + bytes_text(memory) +
        (inference.torch_device().is_cuda() ? " of GPU memory" : " of memory") +
        (is_scaled ? formatted(" (scaled from batches of %d at %dx%d pixels)", pace.batch_size,
                               pace.size.width, pace.size.height)
                   : "");
}

}  // namespace

InputMode fitting_mode(const StoredFiles& files) {
  const std::string size = bytes_text(files.bytes);
  const std::uint64_t mean = files.bytes / std::max<std::size_t>(files.count, 1);
  const bool is_small_set = files.bytes <= kMuch;
  const bool is_packed = files.in_place || files.compressed;
  const std::string count = plural(files.count, "file", "files");
  if (is_small_set && files.count > kManyFiles && mean < kLargeFile)
    return {"File", size + " is quick to copy, but not as " + count +
                        ": pack them ('kiln pack'), and training starts earlier"};
  if (is_small_set) return {"File", size + " is quick to copy, and disks read fastest"};
  if (files.compressed)
    return {"Pipe", size +
                        " of compressed files can only be read in order; uncompressed, FastFile "
                        "could shuffle all of them"};
  if (is_packed && mean >= kLargeFile)
    return {"FastFile", size +
                            " in large files is read in place, in any order, during training; "
                            "Pipe would shuffle only in a buffer"};
  return {
      "File",
      size + " in " + count +
          " is slow to copy and slower to read file by file: pack it ('kiln pack') for FastFile"};
}

int inspect_images(const InspectConfig& config, Log& log, InspectReport& report) {
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
  if (config.valid_data_path.empty()) tell_unused(config.records, set);
  report["notes"] = set.notes;
  if (const std::string advice = depth_advice(set); !advice.empty())
    report["notes"].push_back("no class folders directly in it. " + advice);
  const std::optional<double> cut = share_cut_away(set, size_of(config, set));
  report["cut_away"] = cut ? Report(*cut) : Report();
  if (cut.value_or(0) > kMuchCutAway)
    report["notes"].push_back(cut_text(*cut) + ": see --fit of kiln train");
  report_input_mode(set, report);
  const int bad = config.check ? check_images(set, report) : 0;
  const int leaks = report_leaks(config, set, report);
  if (std::string note = note_of_contradictions(set, hashes_of(set.samples)); !note.empty())
    report["notes"].push_back(std::move(note));
  report_forecast(config, set, log, report);
  return bad + leaks;
}

int write_augment_sheet(const InspectConfig& config, Log& log) {
  const AugmentSheet sheet = drawn_sheet(config);
  write_file_durably(config.output_path, augment_sheet_html(sheet));
  log.info(formatted("Wrote '%s': %zu images of %dx%d pixels, %d times each.",
                     config.output_path.c_str(), sheet.images.size(), sheet.width, sheet.height,
                     kVariants));
  return 0;
}

}  // namespace kiln
