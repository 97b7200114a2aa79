// A model directory in one file: a tar, compressed or not, as SageMaker packs what a job leaves in
// /opt/ml/model. It may lie at the top of the tar or in a folder there.
#pragma once

#include <filesystem>

#include "store/model_directory.h"

namespace kiln {

inline constexpr std::string_view kPackedName = "model.tar.gz";  // SageMaker's

// Whether a regular file is a tar, or compressed. Throws std::system_error where it cannot be read.
bool is_packed(const std::filesystem::path& file);

// What training needs of it: without calibration and seen images. Read in place; a compressed one
// is unpacked to the folder for temporary files. Throws Error kInvalidModelDirectory.
ModelDirectory read_packed_model(const std::filesystem::path& file);

}  // namespace kiln
