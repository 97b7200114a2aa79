// A model directory packed in a tar file, compressed or not, as SageMaker packs what a job leaves
// in /opt/ml/model. The model's files may be at the top of the tar or in a folder there.
#pragma once

#include <filesystem>

#include "store/model_directory.h"

namespace kiln {

inline constexpr std::string_view kPackedName = "model.tar.gz";  // SageMaker's name for it

// Whether a regular file is a tar or compressed. Throws std::system_error if it cannot be read.
bool is_packed(const std::filesystem::path& file);

// Reads what training needs of the model, without calibration and seen images. Reads an
// uncompressed tar in place; a compressed one is first unpacked to the folder for temporary files.
// Throws Error kInvalidModelDirectory.
ModelDirectory read_packed_model(const std::filesystem::path& file);

}  // namespace kiln
