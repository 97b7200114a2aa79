// What is cached about a dataset between runs: the list of its images, and their sizes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

// The index of a dataset: its list in a file, so that the next run need not read the folders again.
// It holds the result of read_labeled_dataset(), the image sizes once they have been read, and a
// stamp of every folder and file that was read. Layout: kMagic, FNV-1a of the rest, the rest;
// numbers as in memory. An index of a different build is rebuilt.
//
// Nothing is written into the dataset. Unless a file is given, the index is in the user's cache,
// found by the real path of the dataset; only shards written by `kiln pack` contain theirs.
struct IndexUse {
  std::filesystem::path file;  // empty: the shards' own, or one in the user's cache
  bool with_sizes = false;     // also scan_sizes(), kCommon
  RecordOptions records = {};
};

// read_labeled_dataset(), from the index if it is current. A stale or damaged index is rebuilt,
// with a note. Written atomically, so jobs starting together may share it; not written to the cache
// for fewer than 1000 images, nor if a folder changed within the last two seconds, since its
// timestamp could not show a later change. Error kFailedToWriteOutputs: `use.file` cannot be
// written.
Dataset read_indexed_dataset(const std::filesystem::path& root, const std::string& name,
                             const IndexUse& use);

// In a folder of shards written by `kiln pack`.
inline constexpr const char* kShardIndexName = ".kiln-shards";

// $XDG_CACHE_HOME/kiln/NAME-HASH.index, else under ~/.cache; empty if neither is set.
std::filesystem::path index_in_cache(const std::filesystem::path& root);

// Throws Error kFailedToWriteOutputs.
void write_index(const std::filesystem::path& file, const Dataset& set);

// Image sizes, read from the headers in parallel.

// kCommon: stops as soon as two sizes differ.
enum class SizesWanted { kAll, kCommon };

// Fills in the sizes that the list does not give; returns how many. An unreadable header leaves the
// size unknown: the loader reports that image.
std::size_t scan_sizes(Dataset& set, SizesWanted wanted);

// The size that all images of all sets share; empty if they differ or none is known.
std::optional<ImageSize> common_size(const std::vector<const Dataset*>& sets);

}  // namespace kiln
