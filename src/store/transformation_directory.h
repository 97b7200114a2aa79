// A TransformationDirectory, the designer's form of an image transformation: `_meta.yaml`, which
// says what it is, and `_transforms.json`, a list of operations and their arguments.
// data/transform/operations.h reads what the list says.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/output_folder.h"

namespace kiln {

inline constexpr std::string_view kTransformsFile = "_transforms.json";

// What read_transformation_directory() asks of the text of `_meta.yaml`; `where` is its path.
void check_transformation_meta(std::string_view yaml, const std::string& where);

// The text of `_transforms.json`, as it stands there. Throws Error kInvalidTransformationDirectory
// naming the folder or file: it is missing or cannot be read, it is of another type or transforms
// no images, or it was left incomplete by a program that was killed.
std::string read_transformation_directory(const std::filesystem::path& folder);

// Refuses `folder` before work starts: Error kFailedToWriteOutputs when it cannot be created or
// written, when another program holds it, or when it holds anything but an earlier
// TransformationDirectory, leftovers, names that begin with a dot, and lost+found. Creates missing
// parents. No other program gets the folder while the result lives.
OutputFolder prepare_transformation_output(const std::filesystem::path& folder);

// Byte for byte as the designer writes it, for the text that TransformChain::to_json() gives.
void write_transformation_directory(const OutputFolder& folder, std::string_view transforms_json);

}  // namespace kiln
