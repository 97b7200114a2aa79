// A TransformationDirectory, the designer's format for an image transformation: `_meta.yaml`, which
// gives its type, and `_transforms.json`, a list of operations and their arguments, which
// data/transform/operations.h parses.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/output_folder.h"

namespace kiln {

inline constexpr std::string_view kTransformsFile = "_transforms.json";

// Checks the text of `_meta.yaml` as read_transformation_directory() does; `where` is its path.
void check_transformation_meta(std::string_view yaml, const std::string& where);

// Returns the unmodified text of `_transforms.json`. Throws Error kInvalidTransformationDirectory
// naming the folder or file if it is missing or cannot be read, has another type or does not
// transform images, or was left incomplete by a killed process.
std::string read_transformation_directory(const std::filesystem::path& folder);

// Checks and locks the output folder before work starts. Throws Error kFailedToWriteOutputs if it
// cannot be created or written, if another process has locked it, or if it holds anything but an
// earlier TransformationDirectory, leftovers, names that begin with a dot, and lost+found. Creates
// missing parents. The folder stays locked while the result exists.
OutputFolder prepare_transformation_output(const std::filesystem::path& folder);

// Writes the directory byte for byte as the designer does, given text from
// TransformChain::to_json().
void write_transformation_directory(const OutputFolder& folder, std::string_view transforms_json);

}  // namespace kiln
