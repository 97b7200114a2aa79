#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "base/url.h"
#include "data/bucket/bucket_copy.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "data/image/image.h"
#include "data/image/unread_kind.h"
#include "model/catalogue.h"
#include "model/weights/starting_weights.h"
#include "record/run_file.h"
#include "run/checkpoint/saved_run.h"
#include "store/checkpoint.h"
#include "store/model_directory.h"
#include "store/state_dict_file.h"
#include "tools/commands.h"
#include "tools/inspect/inspect_images.h"

namespace kiln {
namespace {

std::string cell(const InspectReport& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  return value.dump();
}

// A table of objects with the same keys: the keys, then a row for each object, columns aligned.
std::string rows_text(const InspectReport& rows) {
  std::vector<std::vector<std::string>> lines(1 + rows.size(), {""});
  for (const auto& [key, value] : rows.front().items()) lines[0].push_back(key);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (const auto& [key, value] : rows[i].items()) lines[i + 1].push_back(cell(value));
  std::string text = "\n" + aligned(lines);
  text.pop_back();
  return text;
}

std::string list_text(const InspectReport& list) {
  if (list.empty()) return "none";
  if (list.front().is_object()) return rows_text(list);
  std::string text;
  for (const InspectReport& value : list) {
    if (!text.empty()) text += value.is_string() ? "; " : ", ";
    text += cell(value);
  }
  return text;
}

// One line per key; a list of objects becomes a table under its key.
std::string table_text(const InspectReport& report) {
  constexpr std::size_t kNameWidth = 20;
  std::string text;
  for (const auto& [key, value] : report.items()) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    if (!text.empty()) text += '\n';
    const std::string shown = value.is_array() ? list_text(value) : cell(value);
    if (!shown.starts_with('\n')) name.resize(std::max(name.size() + 1, kNameWidth), ' ');
    text += name + shown;
  }
  return text;
}

namespace fs = std::filesystem;

using Report = InspectReport;

void report_state(const StateDict& state, Report& report) {
  std::map<std::string_view, std::pair<std::int64_t, std::int64_t>> by_type;  // tensors, elements
  std::int64_t all = 0, buffers = 0;                                          // elements
  for (const StoredTensor& tensor : state) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.shape) elements *= extent;
    auto& [num_tensors, num_elements] = by_type[facts_of(tensor.dtype).name];
    ++num_tensors;
    num_elements += elements;
    all += elements;
    // BatchNorm statistics are buffers, not parameters.
    if (tensor.name.ends_with("running_mean") || tensor.name.ends_with("running_var") ||
        tensor.name.ends_with("num_batches_tracked"))
      buffers += elements;
  }
  report["tensors"] = state.size();
  report["elements"] = all;
  report["parameters"] = all - buffers;
  Report& types = report["types"] = Report::array();
  for (const auto& [name, sum] : by_type)
    types.push_back({{"type", name}, {"tensors", sum.first}, {"elements", sum.second}});
}

void inspect_model_directory(const fs::path& path, Report& report) {
  const ModelDirectory directory = read_model_directory(path);
  const ModelSpec& spec = directory.spec;
  loaded_model(directory, (path / spec.model_file).string());  // or throws
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
  if (const auto& pixels = directory.preprocessing) {
    report["exif"] = exif_name(pixels->exif);
    report["input_size"] = {pixels->height, pixels->width};
    report["resize_short_side"] =
        pixels->resize_short_side > 0 ? Report(pixels->resize_short_side) : Report();
    report["keep_exact_size"] = pixels->keep_exact_size;
    report["fit"] = fit_name(pixels->fit);
    if (!pixels->transforms.empty()) report["transforms"] = Report::parse(pixels->transforms);
  }
  if (directory.seen_images) {
    report["seen_training_images"] = directory.seen_images->train.size();
    report["seen_validation_images"] = directory.seen_images->valid.size();
  }
  report_state(directory.state, report);
  if (directory.labels.empty()) return;
  Report& labels = report["label_map"] = Report::array();
  for (std::size_t i = 0; i < directory.labels.size(); ++i)
    labels.push_back({{"id", i}, {"label", directory.labels[i]}});
}

int inspect_checkpoint(const fs::path& path, Report& report) {
  constexpr double kMaxSeconds = 9e9;  // since 1970, so that system_clock does not overflow
  report["kind"] = "Checkpoint";
  report["path"] = path.string();
  report["whole"] = false;
  try {
    std::vector<std::string> skipped;
    const Checkpoint checkpoint = read_checkpoint(path, skipped);
    report["path"] = checkpoint.path.string();
    report["whole"] = true;
    const SavedRun saved = parse_saved_run(checkpoint.state_json);
    const std::chrono::seconds time(
        static_cast<std::int64_t>(std::clamp(saved.time, 0.0, kMaxSeconds)));
    report["model"] = saved.model;
    report["epochs_done"] = saved.progress.epochs_done;
    report["steps"] = saved.steps();
    report["finished"] = saved.finished;
    report["best_epoch"] = saved.progress.best.epoch;
    report["best_top1"] = saved.progress.best.valid.top1_accuracy();
    report["written"] = time_stamp(std::chrono::system_clock::time_point(time));
    report["bytes"] = checkpoint.bytes;
    report["notes"] = skipped;
    return 0;
  } catch (const Error& fault) {
    report["fault"] = fault.message();
  }
  return 1;
}

// Whether the directory declares itself a model. Both forms of `_meta.yaml` name the type in plain
// text.
bool is_model_directory(const fs::path& path) {
  constexpr std::uint64_t kMaxDeclaredBytes = 1 << 20;
  if (is_there(path / "model_spec.yaml")) return true;
  const fs::path meta = path / "_meta.yaml";
  std::error_code failure;
  return is_file(meta) && fs::file_size(meta, failure) <= kMaxDeclaredBytes &&
         read_file(meta, kMaxDeclaredBytes).find("ModelDirectory") != std::string::npos;
}

int inspect_image_file(const fs::path& path, std::string_view bytes, Report& report) try {
  report["kind"] = std::string(image_kind(bytes)) + " image";
  report["path"] = path.string();
  const DecodedImage decoded = decode_image(bytes, Exif::kApply);
  report["width"] = decoded.image.size.width;
  report["height"] = decoded.image.size.height;
  report["orientation"] = read_orientation(bytes).value_or(1);
  report["state"] = decoded.damage.empty() ? "good" : "damaged";
  if (!decoded.damage.empty()) report["fault"] = decoded.damage;
  return 0;
} catch (const ImageFault& fault) {
  report["state"] = "bad";
  report["fault"] = fault.what();
  return 1;
}

[[noreturn]] void fail_to_open(const fs::path& path, std::error_code failure) {
  const std::string reason = failure ? failure.message() : "No such file or directory";
  throw Error(ErrorCode::kUserError, "'" + path.string() + "' cannot be read (" + reason +
                                         "): give a readable directory or file." +
                                         did_you_mean_path(path));
}

// `part`: of a file of several state dicts; empty: the usual one.
int inspect_file(const fs::path& path, const std::string& part, Report& report) {
  constexpr std::size_t kEnough = 64;  // bytes, to recognize an image
  try {
    if (part.empty() && !image_kind(first_bytes(path, kEnough)).empty())
      return inspect_image_file(path, read_file(path, kMaxImageBytes), report);
    const std::string bytes = read_state_dict_file(path);
    StateDictParts parts;
    parts.wanted = part;
    const StateDict state = read_state_dict(bytes, parts);
    if (!parts.wanted.empty()) throw FormatFault(parts.fault());
    report["kind"] = bytes.starts_with("PK")     ? "model file (torch zip)"
                     : bytes.starts_with("\x80") ? "model file (torch, older plain pickle)"
                                                 : "model file (safetensors)";
    report["path"] = path.string();
    report["bytes"] = bytes.size();
    if (!parts.taken.empty()) report["part"] = parts.taken;
    if (parts.names.size() > 1) report["parts"] = parts.names;
    report_state(state, report);
    return 0;
  } catch (const std::system_error& failure) {
    fail_to_open(path, failure.code());
  } catch (const std::length_error&) {
    throw Error(ErrorCode::kUserError,
                "'" + path.string() +
                    "' is an image file larger than the limit of 1 GiB: give a smaller one.");
  } catch (const FormatFault& fault) {
    if (const std::string bytes = first_bytes(path, kEnough);
        unread_kind_of_bytes(bytes) != nullptr)
      throw Error(ErrorCode::kUserError,
                  "'" + path.string() + "' is " + fault_of_unread(bytes) + ".");
    throw Error(
        ErrorCode::kUserError,
        "'" + path.string() + "' is neither an image nor a model file (" + fault.what() +
            "): give an image, a model or a folder. A list of images ends in .csv or .txt.");
  }
}

// What a bucket has, by its folders.
void inspect_bucket(const std::string& url, Report& report) {
  std::map<std::string, std::pair<long long, long long>> folders;  // objects and bytes
  std::pair<long long, long long> all;
  for (const BucketObject& object : list_bucket(url)) {
    const std::size_t end = object.name.rfind('/');
    for (auto* sum : {&all, &folders[end == object.name.npos ? "." : object.name.substr(0, end)]}) {
      ++sum->first;
      sum->second += object.size;
    }
  }
  report = {{"kind", "bucket"}, {"path", url}, {"objects", all.first}, {"bytes", all.second}};
  for (const auto& [name, sum] : folders)
    report["folders"].push_back({{"folder", name}, {"objects", sum.first}, {"bytes", sum.second}});
}

}  // namespace

int run(const InspectConfig& config, Process& process) {
  const auto [file, part] = file_and_part(config.path);
  const fs::path path = file;
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (!fs::exists(status) && !is_bucket(config.path)) fail_to_open(path, failure);
  Report report;
  int bad = 0;
  const bool is_dataset = is_dataset_file(path) && !path.filename().string().ends_with(".pth.tar");
  if (is_bucket(config.path)) {
    inspect_bucket(config.path, report);
  } else if (!part.empty() || (!fs::is_directory(status) && !is_dataset)) {
    bad = inspect_file(path, part, report);
  } else if (is_model_directory(path)) {
    inspect_model_directory(path, report);
  } else if (is_checkpoint(path)) {
    bad = inspect_checkpoint(path, report);
  } else if (is_there(path / kRunFileName)) {
    throw Error(ErrorCode::kUserError, "'" + path.string() +
                                           "' is the log folder of a run: 'kiln report' writes its "
                                           "page, 'kiln compare' compares it with others.");
  } else {
    bad = inspect_images(config, report);
  }
  if (!config.valid_data_path.empty() && !report.contains("leaks"))
    throw Error(ErrorCode::kUserError, "--valid-data-path is for images, but '" + path.string() +
                                           "' has none: leave it out, or give a dataset.");
  if (config.json)
    process.log.echo(report.dump(2, ' ', true, Report::error_handler_t::replace), false);
  std::istringstream lines(config.json ? "" : table_text(report));
  for (std::string line; std::getline(lines, line);) process.log.info(line);
  return bad > 0 ? 1 : 0;
}

}  // namespace kiln
