#include "commands/commands.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/system.h"
#include "base/text.h"
#include "commands/augment_sheet.h"
#include "commands/inspect_forecast.h"
#include "commands/inspect_table.h"
#include "data/dataset/dataset.h"
#include "data/dataset/folder_entries.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/image_index.h"
#include "data/image/image.h"
#include "model/catalogue.h"
#include "store/checkpoint.h"
#include "store/model_directory.h"
#include "store/state_dict_file.h"

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
    const DecodedImage decoded = decode_image(bytes);
    return {decoded.damage, !decoded.damage.empty()};
  } catch (const ImageFault& fault) {
    return {fault.what(), false};
  }
}

// Adds the faulty images to `report`; returns the number of bad ones.
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

void tell_classes(const Dataset& set, Report& report) {
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

void tell_sizes(Dataset& set, Report& report) {
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
  report["unreadable_headers"] = unreadable;
  Report sizes = Report::array();
  for (std::size_t i = 0; i < std::min(kMaxSizesTold, sorted.size()); ++i) {
    const auto& [size, images] = sorted[i];
    sizes.push_back({{"width", size.first}, {"height", size.second}, {"images", images}});
  }
  report["most_common_sizes"] = std::move(sizes);
}

void tell_forecast(const InspectConfig& config, Dataset& set, Report& report) {
  if (!config.pace) return;
  const TrainingForecast forecast = forecast_training(config, set);
  if (!config.json) {
    report["forecast"] = forecast_text(forecast, config);
    return;
  }
  report["forecast"] = {{"model_name", config.pace->model_name},
                        {"image_size", {forecast.size.height, forecast.size.width}},
                        {"batch_size", config.pace->batch_size},
                        {"images_per_second", forecast.images_per_second},
                        {"epoch_seconds", forecast.epoch_seconds},
                        {"epochs", config.epochs},
                        {"run_seconds", forecast.run_seconds},
                        {"peak_memory_bytes", forecast.peak_memory_bytes}};
}

int inspect_images(const InspectConfig& config, Report& report) {
  const fs::path path = config.path;
  Dataset set = read_dataset(path, "Folder");
  report["kind"] = describe(set.kind);
  report["path"] = path.string();
  report["images"] = set.samples.size();
  tell_classes(set, report);
  tell_sizes(set, report);
  report["notes"] = set.notes;
  if (const std::string advice = depth_advice(set); !advice.empty())
    report["notes"].push_back("no class folders directly in it. " + advice);
  const int bad = config.check ? check_images(set, report) : 0;
  tell_forecast(config, set, report);
  return bad;
}

std::string_view dtype_name(DType dtype) {
  static constexpr std::array<std::pair<DType, std::string_view>, 10> kNames{
      {{DType::kFloat64, "float64"},
       {DType::kFloat32, "float32"},
       {DType::kFloat16, "float16"},
       {DType::kBFloat16, "bfloat16"},
       {DType::kInt64, "int64"},
       {DType::kInt32, "int32"},
       {DType::kInt16, "int16"},
       {DType::kInt8, "int8"},
       {DType::kUInt8, "uint8"},
       {DType::kBool, "bool"}}};
  for (const auto& [known, name] : kNames)
    if (known == dtype) return name;
  throw InternalError("dtype_name: unknown type");
}

void tell_state(const StateDict& state, Report& report) {
  struct Sum {
    std::int64_t tensors = 0;
    std::int64_t elements = 0;
  };
  std::map<std::string_view, Sum> by_type;
  Sum all;
  std::int64_t buffers = 0;
  for (const StoredTensor& tensor : state) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.shape) elements *= extent;
    Sum& sum = by_type[dtype_name(tensor.dtype)];
    ++sum.tensors;
    sum.elements += elements;
    ++all.tensors;
    all.elements += elements;
    // BatchNorm statistics are buffers, not parameters.
    const bool statistic = tensor.name.ends_with("running_mean") ||
                           tensor.name.ends_with("running_var") ||
                           tensor.name.ends_with("num_batches_tracked");
    if (statistic) buffers += elements;
  }
  report["tensors"] = all.tensors;
  report["elements"] = all.elements;
  report["parameters"] = all.elements - buffers;
  Report types = Report::array();
  for (const auto& [name, sum] : by_type) {
    types.push_back({{"type", name}, {"tensors", sum.tensors}, {"elements", sum.elements}});
  }
  report["types"] = std::move(types);
}

void tell_preprocessing(const Preprocessing& pixels, Report& report) {
  report["input_size"] = {pixels.height, pixels.width};
  report["resize_short_side"] =
      pixels.resize_short_side > 0 ? Report(pixels.resize_short_side) : Report();
  report["keep_exact_size"] = pixels.keep_exact_size;
  if (!pixels.transforms.empty()) report["transforms"] = Report::parse(pixels.transforms);
}

void inspect_model_directory(const fs::path& path, Report& report) {
  const ModelDirectory directory = read_model_directory(path);
  const ModelSpec& spec = directory.spec;
  report["kind"] = spec.num_classes ? "ModelDirectory" : "UntrainedModelDirectory";
  report["path"] = path.string();
  report["model"] = spec.model_name;
  report["pretrained"] = spec.pretrained;
  const NetworkFamily& family = known_network(spec.model_name).family();
  if (family.allows(kMemoryEfficient)) report["memory_efficient"] = spec.memory_efficient;
  if (family.allows(kZeroInitResidual)) report["zero_init_residual"] = spec.zero_init_residual;
  if (spec.num_classes) report["num_classes"] = *spec.num_classes;
  if (spec.normalization) {
    report["mean"] = spec.normalization->mean;
    report["std"] = spec.normalization->std;
  }
  if (directory.preprocessing) tell_preprocessing(*directory.preprocessing, report);
  if (directory.seen_images) {
    report["seen_training_images"] = directory.seen_images->train.size();
    report["seen_validation_images"] = directory.seen_images->valid.size();
  }
  tell_state(directory.state, report);
  if (directory.labels.empty()) return;
  Report labels = Report::array();
  for (std::size_t i = 0; i < directory.labels.size(); ++i) {
    labels.push_back({{"id", i}, {"label", directory.labels[i]}});
  }
  report["label_map"] = std::move(labels);
}

// What state.json says; other versions may write other fields.
void tell_progress(const nlohmann::json& state, Report& report) {
  constexpr double kMostSeconds = 9e9;  // of system_clock since 1970
  const auto tell = [&](const nlohmann::json& object, const char* field, const char* name) {
    if (object.is_object() && object.contains(field) && object[field].is_primitive())
      report[name] = object[field];
  };
  for (const char* name : {"model", "epochs_done", "steps", "finished"}) tell(state, name, name);
  const nlohmann::json best =
      state.is_object() ? state.value("best", nlohmann::json()) : nlohmann::json();
  tell(best, "epoch", "best_epoch");
  tell(best, "top1", "best_top1");
  tell(state, "time", "written");
  if (!report.contains("written") || !report["written"].is_number()) return;
  const std::chrono::seconds time(
      static_cast<std::int64_t>(std::clamp(report["written"].get<double>(), 0.0, kMostSeconds)));
  report["written"] = time_stamp(std::chrono::system_clock::time_point(time));
}

int inspect_checkpoint(const fs::path& path, Report& report) {
  report["kind"] = "Checkpoint";
  report["path"] = path.string();
  try {
    std::vector<std::string> skipped;
    const Checkpoint checkpoint = read_checkpoint(path, skipped);
    report["path"] = checkpoint.path.string();
    report["whole"] = true;
    tell_progress(parse_json(checkpoint.state_json), report);
    report["bytes"] = checkpoint.bytes;
    report["notes"] = skipped;
    return 0;
  } catch (const Error& fault) {
    report["whole"] = false;
    report["fault"] = fault.message();
  } catch (const JsonFault& fault) {
    report["whole"] = false;
    report["fault"] = std::string("its state.json ") + fault.what();
  }
  return 1;
}

// Whether the directory declares itself a model; both forms of `_meta.yaml` name the type in plain
// text.
bool is_model_directory(const fs::path& path) {
  constexpr std::uint64_t kMaxMetaBytes = 1 << 20;
  std::error_code failure;
  if (fs::exists(path / "model_spec.yaml", failure)) return true;
  const fs::path meta = path / "_meta.yaml";
  return fs::is_regular_file(meta, failure) && fs::file_size(meta, failure) <= kMaxMetaBytes &&
         read_file(meta, kMaxMetaBytes).find("ModelDirectory") != std::string::npos;
}

int inspect_image_file(const fs::path& path, std::string_view bytes, Report& report) {
  report["kind"] = std::string(image_kind(bytes)) + " image";
  report["path"] = path.string();
  try {
    const DecodedImage decoded = decode_image(bytes);
    report["width"] = decoded.image.size.width;
    report["height"] = decoded.image.size.height;
    report["state"] = decoded.damage.empty() ? "good" : "damaged";
    if (!decoded.damage.empty()) report["fault"] = decoded.damage;
    return 0;
  } catch (const ImageFault& fault) {
    report["state"] = "bad";
    report["fault"] = fault.what();
    return 1;
  }
}

std::string state_file_kind(std::string_view bytes) {
  if (bytes.starts_with("PK")) return "model file (torch zip)";
  if (bytes.starts_with("\x80")) return "model file (torch, older plain pickle)";
  return "model file (safetensors)";
}

[[noreturn]] void fail_to_open(const fs::path& path, std::error_code failure) {
  const std::string reason = failure ? failure.message() : "No such file or directory";
  throw Error(ErrorCode::kUserError, "'" + path.string() + "' cannot be read (" + reason +
                                         "): give a readable directory or file." +
                                         did_you_mean_path(path));
}

int inspect_file(const fs::path& path, Report& report) {
  constexpr std::size_t kEnough = 64;  // bytes, to know an image by
  try {
    if (!image_kind(first_bytes(path, kEnough)).empty())
      return inspect_image_file(path, read_file(path, kMaxImageBytes), report);
    const std::string bytes = read_state_dict_file(path);
    const StateDict state = read_state_dict(bytes);
    report["kind"] = state_file_kind(bytes);
    report["path"] = path.string();
    report["bytes"] = bytes.size();
    tell_state(state, report);
    return 0;
  } catch (const std::system_error& failure) {
    fail_to_open(path, failure.code());
  } catch (const std::length_error&) {
    throw Error(ErrorCode::kUserError, "'" + path.string() +
                                           "' is an image file of more than 1 GiB, "
                                           "which is not read: give a smaller one.");
  } catch (const FormatFault& fault) {
    throw Error(ErrorCode::kUserError,
                "'" + path.string() + "' is neither an image nor a model file (" + fault.what() +
                    "): give an image, a model file or a directory.");
  }
}

}  // namespace

int run(const InspectConfig& config, Process& process) {
  const fs::path path = config.path;
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (!fs::exists(status)) fail_to_open(path, failure);
  if (config.augment) return write_augment_sheet(config, process.log);
  Report report;
  int bad = 0;
  const std::string name = path.filename().string();
  const bool is_archive = has_archive_extension(name) && !name.ends_with(".pth.tar");
  if (!fs::is_directory(status) && !is_archive) {
    bad = inspect_file(path, report);
  } else if (is_model_directory(path)) {
    inspect_model_directory(path, report);
  } else if (is_checkpoint(path)) {
    bad = inspect_checkpoint(path, report);
  } else {
    bad = inspect_images(config, report);
  }
  std::istringstream lines(config.json
                               ? report.dump(2, ' ', false, Report::error_handler_t::replace)
                               : table_text(report));
  for (std::string line; std::getline(lines, line);) process.log.info(line);
  return bad > 0 ? 1 : 0;
}

}  // namespace kiln
