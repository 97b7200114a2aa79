// Writes an ImageDirectory as the designer's converter does. Bytes of images are copied, never
// encoded anew.
//
// The folder may be a mount point: its files are put in place together, `_meta.yaml` last
// (base/output_folder.h).
#pragma once

#include <filesystem>

#include "data/dataset/dataset.h"

namespace kiln {

// Creates `folder` with its parents. Refuses it, Error kFailedToWriteOutputs: it cannot be created
// or written (a probe file is written and removed); it is `input`, inside it or around it.
void prepare_output_folder(const std::filesystem::path& folder, const std::filesystem::path& input);

// Refuses `folder` before work starts, Error kFailedToWriteOutputs: it cannot be created or written
// (a probe file is written and removed); it is `input`, inside it or around it; it holds anything
// but an earlier ImageDirectory, leftovers of a killed run, names that begin with a dot, and
// lost+found. Creates parents, removes leftovers.
void prepare_image_output(const std::filesystem::path& folder, const std::filesystem::path& input);

// `set` as an ImageDirectory in a prepared `folder`. An ImageDirectory keeps its list; class
// folders become `image/<class id>_<n><extension>`; other kinds keep their paths below `image/`.
// Error kInvalidDataset when an image cannot be read, kFailedToWriteOutputs when the output cannot
// be written.
void write_image_directory(const Dataset& set, const std::filesystem::path& folder);

}  // namespace kiln
