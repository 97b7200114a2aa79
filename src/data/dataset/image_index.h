// What is read of a dataset once and kept for the next start: the list of its images, and their
// sizes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

// The index of a dataset: its list kept in a file, so that the next start need not read the folders
// again. It holds what read_labeled_dataset() found, the sizes of images once they were read, and a
// stamp of every folder and file that was read. Layout: kMagic, FNV-1a of the rest, the rest;
// numbers as in memory. An index of another build is rebuilt.
//
// Nothing is written into the data. Without a name of its own the index is in the user's cache,
// found by the real path of the dataset; only shards of `kiln pack` bring theirs along.
struct IndexUse {
  std::filesystem::path file;  // empty: that of the shards, or one in the user's cache
  bool with_sizes = false;     // scan_sizes() as well, kCommon
};

// read_labeled_dataset(), from the index where it fits. An index that is stale or damaged is
// rebuilt, which a note says. Written whole, so that jobs starting together may share it; not
// written to the cache for fewer than 1000 images, nor while a folder has changed within two
// seconds, which its time could not tell from a later change. Error kFailedToWriteOutputs:
// `use.file` cannot be written.
Dataset read_indexed_dataset(const std::filesystem::path& root, const std::string& name,
                             const IndexUse& use);

// In a folder of shards that `kiln pack` has written.
inline constexpr const char* kShardIndexName = ".kiln-shards";

// $XDG_CACHE_HOME/kiln/NAME-HASH.index, else below ~/.cache; empty where neither is set.
std::filesystem::path index_in_cache(const std::filesystem::path& root);

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
