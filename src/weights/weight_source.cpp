#include "weights/weight_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "store/checkpoint.h"
#include "store/state_dict_file.h"
#include "weights/packed_model.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kPrefix = "model.";
constexpr std::string_view kOutputLayer = "out_linear_model.";
constexpr std::string_view kStatePrefix = "model.";  // the model's tensors in a checkpoint
constexpr std::array<std::string_view, 2> kWrappers{"module.", "_orig_mod."};
constexpr const char* kForms =
    "Give a state dict (.pth or .safetensors), a model directory, model.tar.gz or a checkpoint.";

[[noreturn]] void fail(const fs::path& path, const std::string& fault) {
  throw Error(ErrorCode::kInvalidModelDirectory,
              "--weights " + quoted_path(path) + " cannot be used: " + fault + ". " + kForms);
}

bool all_begin_with(const StateDict& state, std::string_view prefix) {
  return !state.empty() && std::all_of(state.begin(), state.end(), [&](const StoredTensor& tensor) {
    return tensor.name.starts_with(prefix);
  });
}

// Returns the three finite numbers under `key`; empty if they are not there.
std::optional<std::array<double, 3>> channels(const Json& data, const char* key) {
  const auto found = data.find(key);
  if (found == data.end() || !found->is_array() || found->size() != 3) return std::nullopt;
  std::array<double, 3> values{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(*found)[i].is_number()) return std::nullopt;
    values[i] = (*found)[i].get<double>();
    if (!std::isfinite(values[i])) return std::nullopt;
  }
  return values;
}

// Sets the classes and the normalization from the first line of a run's record. What is missing or
// malformed stays unknown, because the weights can be used without it.
void add_facts_of_record(std::string_view record, WeightSource& source) {
  try {
    const Json start = parse_json(first_line(record));
    if (!start.is_object() || !start.contains("data") || !start["data"].is_object()) return;
    const Json& data = start["data"];
    const auto classes = data.find("classes");
    if (classes != data.end() && classes->is_array() &&
        std::all_of(classes->begin(), classes->end(), [](const Json& c) { return c.is_string(); }))
      source.classes = classes->get<std::vector<std::string>>();
    const auto mean = channels(data, "mean"), std = channels(data, "std");
    if (mean && std && std::all_of(std->begin(), std->end(), [](double s) { return s > 0; }))
      source.normalization = Normalization{*mean, *std};
  } catch (const JsonFault&) {  // both stay unknown
  }
}

WeightSource weights_of_checkpoint(const fs::path& path) {
  std::vector<std::string> skipped;
  Checkpoint checkpoint = read_checkpoint(path, skipped);
  WeightSource source;
  source.where = path.string();
  source.kind = checkpoint.path.filename().string();
  source.trained = true;
  source.state = std::move(checkpoint.best);
  if (source.state.empty()) {
    for (StoredTensor& tensor : checkpoint.tensors) {
      if (!tensor.name.starts_with(kStatePrefix)) continue;
      tensor.name.erase(0, kStatePrefix.size());
      source.state.push_back(std::move(tensor));
    }
  }
  add_facts_of_record(checkpoint.record, source);
  return source;
}

bool is_directory_with_model(const fs::path& path) {
  std::error_code fault;
  return fs::exists(path / kMetaFile, fault);
}

// Returns `path` if it is a packed model, or the packed model in the folder `path`. Empty if there
// is none, or if the folder is a model directory itself.
fs::path packed_model_at(const fs::path& path) {
  std::error_code fault;
  if (!fs::is_directory(path, fault))
    return fs::exists(path, fault) && is_packed(path) ? path : fs::path();
  if (is_directory_with_model(path) || !fs::exists(path / kPackedName, fault)) return {};
  return path / kPackedName;
}

WeightSource weights_of_file(const fs::path& path) {
  WeightSource source;
  source.where = path.string();
  source.kind = "a state dict";
  source.state = read_state_dict(read_state_dict_file(path));
  to_own_names(source.state);
  return source;
}

}  // namespace

void to_own_names(StateDict& state) {
  for (bool stripped = true; stripped;) {
    stripped = false;
    for (const std::string_view wrapper : kWrappers) {
      if (!all_begin_with(state, wrapper)) continue;
      for (StoredTensor& tensor : state) tensor.name.erase(0, wrapper.size());
      stripped = true;
    }
  }
  const bool own = std::any_of(state.begin(), state.end(), [](const StoredTensor& tensor) {
    return tensor.name.starts_with(kPrefix);
  });
  for (StoredTensor& tensor : state)
    if (!own && !tensor.name.starts_with(kOutputLayer)) tensor.name.insert(0, kPrefix);
  rename_old_densenet_keys(state);
}

ModelDirectory read_model(const fs::path& path) {
  try {
    const fs::path packed = packed_model_at(path);
    return packed.empty() ? read_model_directory(path) : read_packed_model(packed);
  } catch (const std::system_error& fault) {
    throw Error(
        ErrorCode::kInvalidModelDirectory,
        "The model " + quoted_path(path) + " cannot be read (" + fault.code().message() + ").");
  }
}

WeightSource weights_of(ModelDirectory directory, const std::string& where) {
  WeightSource source;
  source.where = where;
  source.trained = directory.spec.num_classes.has_value();
  source.kind = source.trained ? "a trained model" : "an untrained model";
  source.state = std::move(directory.state);
  source.classes = std::move(directory.labels);
  source.normalization = directory.preprocessing ? directory.preprocessing->normalization
                                                 : directory.spec.normalization;
  return source;
}

WeightSource read_weight_source(const fs::path& path) {
  std::error_code absent;
  if (is_checkpoint(path)) return weights_of_checkpoint(path);
  try {
    if (!packed_model_at(path).empty() || is_directory_with_model(path))
      return weights_of(read_model(path), path.string());
    if (fs::is_directory(path, absent))
      fail(path, "it is a folder, but not a model directory, since it has no " +
                     std::string(kMetaFile) + ", and has no checkpoints");
    return weights_of_file(path);
  } catch (const FormatFault& fault) {
    fail(path, fault.what());
  } catch (const std::system_error& fault) {
    throw Error(ErrorCode::kInvalidModelDirectory,
                "--weights " + quoted_path(path) + " cannot be read (" + why_unreadable(fault) +
                    ")." + did_you_mean_path(path) + " " + kForms);
  }
}

std::string print_of(const WeightSource& source) {
  ContentHash hash(0);
  for (const StoredTensor& tensor : source.state) {
    hash.add(std::to_string(tensor.name.size()) + ":" + tensor.name);
    hash.add(std::to_string(tensor.bytes.size()) + ":");
    hash.add(tensor.bytes);
  }
  return hex_digits(hash.value());
}

}  // namespace kiln
