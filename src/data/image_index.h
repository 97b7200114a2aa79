// The list of a data set kept in a file, so that the next start need not read the folders again.
//
// It holds what read_labeled_image_set() found, the sizes of images once they were read, and a
// stamp of every folder and file that was read. Layout: kMagic, FNV-1a of the rest, the rest;
// numbers as in memory. It is made for the program that made it: another build's is made anew.
#pragma once

#include <filesystem>
#include <string>

#include "data/image_set.h"
#include "data/size_scan.h"

namespace kiln {

struct IndexUse {
  std::filesystem::path file;  // empty: beside the data, where that can be written
  bool with_sizes = false;     // scan_sizes() as well, kCommon
};

// read_labeled_image_set(), from the index where it fits. An index that is stale or damaged is made
// anew, which a note says. Written whole, so that jobs starting together may share it; not written
// beside sets of fewer than 1000 images, nor while a folder has changed within two seconds, which
// its time could not tell from a later change. Error kFailedToWriteOutputs: `use.file` cannot be
// written.
ImageSet read_indexed_image_set(const std::filesystem::path& root, const std::string& name,
                                const IndexUse& use);

// Beside the data: `.kiln-index` in a folder, `.NAME.kiln-index` next to a file.
std::filesystem::path index_beside(const std::filesystem::path& root);

// Throws Error kFailedToWriteOutputs.
void write_index(const std::filesystem::path& file, const ImageSet& set);

}  // namespace kiln
