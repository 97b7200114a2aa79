// `_meta.yaml`: what kind of directory it is and where its parts are.
#pragma once

#include <filesystem>
#include <string>

namespace kiln {

struct DirectoryMeta {
  std::string type;        // "ModelDirectory", …
  std::string model_spec;  // file name of the specification
};

// Throws Error kInvalidModelDirectory naming the file and its fault.
DirectoryMeta read_directory_meta(const std::filesystem::path& meta_path);

}  // namespace kiln
