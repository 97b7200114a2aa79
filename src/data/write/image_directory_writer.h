// Writes an ImageDirectory as the designer's converter does. Image bytes are copied, never
// re-encoded.
//
// The folder may be a mount point: its files are put in place together, `_meta.yaml` last
// (base/output_folder.h).
#pragma once

#include <filesystem>

#include "data/dataset/dataset.h"

namespace kiln {

// Creates `folder` and its parents. Error kFailedToWriteOutputs if it cannot be created or written
// (a probe file is written and removed), or if it is `input`, inside it or a parent of it.
void prepare_output_folder(const std::filesystem::path& folder, const std::filesystem::path& input);

// Checks `folder` before work starts. Error kFailedToWriteOutputs as for prepare_output_folder(),
// and if it contains anything except an earlier ImageDirectory, leftovers of a killed run, names
// that begin with a dot, and lost+found. Creates parents, removes leftovers.
void prepare_image_output(const std::filesystem::path& folder, const std::filesystem::path& input);

// Writes `set` as an ImageDirectory into a prepared `folder`. An ImageDirectory keeps its list;
// class folders become `image/<class id>_<n><extension>`; other kinds keep their paths below
// `image/`. Error kInvalidDataset if an image cannot be read, kFailedToWriteOutputs if the output
// cannot be written.
void write_image_directory(const Dataset& set, const std::filesystem::path& folder);

}  // namespace kiln
