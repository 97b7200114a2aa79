#include "store/preprocessing.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1, kVersionWithTransforms = 2;
constexpr std::size_t kMaxBytes = 1 << 16;
constexpr std::int64_t kMaxPixels = 1 << 28;  // more than any decodable image has
constexpr const char* kTransforms = "transforms";
constexpr std::array<std::string_view, 8> kKeys{
    "version", "exif", "resize_short_side", "keep_exact_size", "input_size",
    "mean",    "std",  kTransforms};

std::string shown(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60);
}

[[noreturn]] void fail(const std::string& where, const std::string& fault) {
  throw Error(ErrorCode::kInvalidModelDirectory,
              "'" + where + "' is not a valid preprocessing file: " + fault +
                  ". Train the model again or copy its complete directory.");
}

class PreprocessingReader {
 public:
  PreprocessingReader(const Json& root, const std::string& where) : root_(root), where_(where) {}

  Preprocessing read() const {
    if (!root_.is_object()) fail(where_, "it is not a JSON object");
    const Json& version = at("version");
    if (version != kVersion && version != kVersionWithTransforms)
      fail(where_, "its version is " + shown(version) + ", but this program supports versions " +
                       std::to_string(kVersion) + " and " + std::to_string(kVersionWithTransforms));
    const bool has_transforms = version == kVersionWithTransforms;
    for (const auto& [key, value] : root_.items()) {
      if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end() ||
          (key == kTransforms && !has_transforms))
        fail(where_, "its key '" + key.substr(0, 100) + "' is unknown");
    }
    Preprocessing result;
    read_exif(result);
    read_input_size(result);
    read_resizing(result);
    if (has_transforms) read_transforms(result);
    result.normalization = {channels("mean"), channels("std")};
    for (const double value : result.normalization.std)
      if (value <= 0) refuse("std", "three numbers above 0");
    return result;
  }

 private:
  const Json& at(const char* key) const {
    const auto found = root_.find(key);
    if (found == root_.end()) fail(where_, std::string("its key '") + key + "' is missing");
    return *found;
  }

  [[noreturn]] void refuse(const char* key, const std::string& due) const {
    fail(where_, std::string("its key '") + key + "' is " + shown(at(key)) + " instead of " + due);
  }

  // Returns 0 if `value` is invalid.
  static int pixels(const Json& value) {
    const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= kMaxPixels;
    return fits ? value.get<int>() : 0;
  }

  void read_input_size(Preprocessing& result) const {
    const Json& size = at("input_size");
    if (size.is_array() && size.size() == 2) {
      result.height = pixels(size[0]);
      result.width = pixels(size[1]);
    }
    const std::int64_t area = std::int64_t{result.height} * result.width;
    if (area < 1 || area > kMaxPixels) refuse("input_size", "a height and a width in pixels");
  }

  void read_exif(Preprocessing& result) const {
    const auto found = root_.find("exif");
    if (found == root_.end()) return;
    const auto exif = exif_named(found->is_string() ? found->get<std::string>() : "");
    if (!exif) refuse("exif", "\"apply\" or \"ignore\"");
    result.exif = *exif;
  }

  void read_resizing(Preprocessing& result) const {
    const Json& side = at("resize_short_side");
    if (!side.is_null()) {
      result.resize_short_side = pixels(side);
      if (result.resize_short_side < std::max(result.height, result.width))
        refuse("resize_short_side", "null or pixels of at least the input size");
    }
    const Json& keep = at("keep_exact_size");
    if (!keep.is_boolean()) refuse("keep_exact_size", "true or false");
    result.keep_exact_size = keep.get<bool>();
    if (!result.keep_exact_size && side.is_null())
      refuse("keep_exact_size", "true if nothing is resized");
  }

  void read_transforms(Preprocessing& result) const {
    const Json& operations = at(kTransforms);
    if (!operations.is_array()) refuse(kTransforms, "a list of operations");
    if (result.resize_short_side > 0) refuse("resize_short_side", "null with transforms");
    result.transforms = operations.dump();
  }

  std::array<double, 3> channels(const char* key) const {
    const Json& list = at(key);
    std::array<double, 3> values{};
    bool right = list.is_array() && list.size() == values.size();
    for (std::size_t i = 0; right && i < values.size(); ++i) {
      right = list[i].is_number();
      if (right) values[i] = list[i].get<double>();
    }
    if (!right) refuse(key, "three numbers");
    return values;
  }

  const Json& root_;
  const std::string& where_;
};

}  // namespace

Preprocessing parse_preprocessing(std::string_view json, const std::string& where) {
  if (json.size() > kMaxBytes) fail(where, "it is larger than 64 KiB");
  try {
    const Json root = parse_json(json, RepeatedKeys::kRefused);
    return PreprocessingReader(root, where).read();
  } catch (const JsonFault& fault) {
    fail(where, std::string("it ") + fault.what());
  }
}

std::string format_preprocessing(const Preprocessing& preprocessing) {
  const int side = preprocessing.resize_short_side;
  const bool has_transforms = !preprocessing.transforms.empty();
  nlohmann::ordered_json json = {
      {"version", has_transforms ? kVersionWithTransforms : kVersion},
      {"exif", exif_name(preprocessing.exif)},
      {"resize_short_side", side > 0 ? nlohmann::ordered_json(side) : nlohmann::ordered_json()},
      {"keep_exact_size", preprocessing.keep_exact_size},
      {"input_size", {preprocessing.height, preprocessing.width}},
      {"mean", preprocessing.normalization.mean},
      {"std", preprocessing.normalization.std}};
  if (has_transforms) json[kTransforms] = nlohmann::ordered_json::parse(preprocessing.transforms);
  return json.dump(2, ' ', /*ensure_ascii=*/true) + "\n";
}

}  // namespace kiln
