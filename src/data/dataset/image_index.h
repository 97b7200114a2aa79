// What is read of a dataset once and kept for the next start: the list of its images, and their
// sizes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

// The list of a data set kept in a file, so that the next start need not read the folders again.
//
// It holds what read_labeled_dataset() found, the sizes of images once they were read, and a
// stamp of every folder and file that was read. Layout: kMagic, FNV-1a of the rest, the rest;
// numbers as in memory. It is made for the program that made it: another build's is made anew.
struct IndexUse {
  std::filesystem::path file;  // empty: beside the data, where that can be written
  bool with_sizes = false;     // scan_sizes() as well, kCommon
};

// read_labeled_dataset(), from the index where it fits. An index that is stale or damaged is made
// anew, which a note says. Written whole, so that jobs starting together may share it; not written
// beside sets of fewer than 1000 images, nor while a folder has changed within two seconds, which
// its time could not tell from a later change. Error kFailedToWriteOutputs: `use.file` cannot be
// written.
Dataset read_indexed_image_set(const std::filesystem::path& root, const std::string& name,
                               const IndexUse& use);

// Beside the data: `.kiln-index` in a folder, `.NAME.kiln-index` next to a file.
std::filesystem::path index_beside(const std::filesystem::path& root);

// Throws Error kFailedToWriteOutputs.
void write_index(const std::filesystem::path& file, const Dataset& set);

// The sizes of many images from their headers, read in parallel.

// kCommon: no more than it takes to see that two differ.
enum class SizesWanted { kAll, kCommon };

// Fills in sizes that the list does not give, from the headers; how many. A header that cannot be
// read leaves its size unknown (the loader will meet that image and say why).
std::size_t scan_sizes(Dataset& set, SizesWanted wanted);

// The size that all images of all sets share; empty when they differ or none is known.
std::optional<ImageSize> common_size(const std::vector<const Dataset*>& sets);

}  // namespace kiln
