#include "store/directory_meta.h"

#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/files.h"
#include "store/directory_names.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMaxMeta = 1 << 16;

std::string scalar_at(const YAML::Node& root, const char* key) {
  const YAML::Node node = root[key];
  return node.IsDefined() && node.IsScalar() ? node.Scalar() : std::string();
}

}  // namespace

DirectoryMeta read_directory_meta(const std::filesystem::path& meta_path) {
  const auto fail = [&](const std::string& fault) {
    return Error(
        ErrorCode::kInvalidModelDirectory,
        "'" + meta_path.string() + "' " + fault + ". Give a folder that 'kiln init-model' made.");
  };
  try {
    const YAML::Node root = YAML::Load(read_file(meta_path, kMaxMeta));
    if (!root.IsMap()) throw fail("is not a mapping");
    DirectoryMeta meta{scalar_at(root, "type"), scalar_at(root, "model")};
    if (meta.type.empty()) throw fail("has no key 'type'");
    if (meta.type == "ModelDirectory" && meta.model_spec.empty()) throw fail("has no key 'model'");
    if (meta.model_spec.find('/') != std::string::npos) {
      throw fail("has the path '" + meta.model_spec + "' where a file name is due");
    }
    return meta;
  } catch (const YAML::Exception& fault) {
    throw fail(std::string("is not valid YAML (") + fault.what() + ")");
  } catch (const std::length_error&) {
    throw fail("is larger than 64 KiB");
  } catch (const std::system_error& fault) {
    throw fail("cannot be read (" + fault.code().message() + ")");
  }
}

}  // namespace kiln
