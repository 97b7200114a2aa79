#include "store/transformation_directory.h"

#include <yaml-cpp/yaml.h>
#include <algorithm>
#include <cstdint>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "store/model_spec.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// Small enough that a model's preprocessing.json, which holds them with more whitespace, also stays
// below its limit.
constexpr std::uint64_t kMaxTransforms = 1 << 13;
constexpr const char* kType = "TransformationDirectory";
constexpr const char* kRemedy = "Give a folder that `kiln transform init` wrote.";

[[noreturn]] void fail(const fs::path& path, const std::string& fault,
                       const std::string& guess = "") {
  throw Error(ErrorCode::kInvalidTransformationDirectory,
              quoted_path(path) + " " + fault + ". " + kRemedy + guess);
}

std::string read_part(const fs::path& path, std::uint64_t max_bytes) {
  return read_text_or(path, max_bytes, "is larger than " + std::to_string(max_bytes >> 10) + " KiB",
                      [&](const std::string& fault) { fail(path, fault); });
}

// The text at a key of `_meta.yaml`; empty if it is missing or not a scalar.
std::string text_at(const YAML::Node& root, const char* key) {
  const YAML::Node value = root[key];
  return value.IsDefined() && value.IsScalar() ? value.Scalar() : std::string();
}

[[noreturn]] void refuse_output(const fs::path& folder, const std::string& fault) {
  fail_output_folder(folder, fault,
                     "Choose an empty folder, or one with a complete earlier transformation.");
}

}  // namespace

void check_transformation_meta(std::string_view yaml, const std::string& where) {
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    if (!root.IsMap()) fail(where, "is not a mapping");
    const std::string type = text_at(root, "type"), of = text_at(root, "transform_type");
    if (type != kType)
      fail(where,
           type.empty() ? "has no key 'type'" : "is of type '" + excerpt(type) + "', not " + kType);
    if (of != "Image")
      fail(where, of.empty() ? "does not specify that it transforms images"
                             : "transforms '" + excerpt(of) + "', not images");
  } catch (const YAML::Exception& fault) {
    fail(where, std::string("is not valid YAML (") + fault.what() + ")");
  }
}

namespace {

void check_meta_of(const fs::path& folder) {
  const fs::path meta = folder / kMetaFile;
  check_transformation_meta(read_part(meta, kMaxMetaBytes), meta.string());
}

}  // namespace

std::string read_transformation_directory(const fs::path& folder) {
  if (!is_there(folder)) fail(folder, "does not exist", did_you_mean_path(folder));
  if (!is_folder(folder)) fail(folder, "is a file, not a folder");
  if (is_half_replaced(folder))
    fail(folder, "was left incomplete by a program that was killed, or is still being written");
  if (!is_there(folder / kMetaFile))
    fail(folder, "has no _meta.yaml, so it is not a transformation");
  check_meta_of(folder);
  return read_part(folder / kTransformsFile, kMaxTransforms);
}

OutputFolder prepare_transformation_output(const fs::path& path) {
  OutputFolder folder(path);
  constexpr std::size_t kShown = 3;
  std::error_code fault;
  std::vector<std::string> foreign = names_in(path, fault);
  if (fault) refuse_output(path, "cannot be listed (" + fault.message() + ")");
  std::erase_if(foreign, is_ignored_name);
  const bool has_own = std::erase_if(foreign, [](const std::string& name) {
                         return name == kMetaFile || name == kTransformsFile;
                       }) > 0;
  std::ranges::sort(foreign);
  if (!foreign.empty())
    refuse_output(path, "contains other files (" + quoted_names(foreign, kShown) + ")");
  if (has_own) try {
      check_meta_of(path);
    } catch (const Error&) {
      refuse_output(path, "contains something other than a transformation");
    }
  folder.prepare();
  return folder;
}

void write_transformation_directory(const OutputFolder& folder, std::string_view transforms_json) {
  folder.replace({{std::string(kTransformsFile), std::string(transforms_json)},
                  {std::string(kMetaFile),
                   std::string("type: ") + kType + "\nextension: {}\ntransform_type: Image\n"}});
}

}  // namespace kiln
