// A labeled dataset as tar shards with WebDataset's names: KEY.jpg followed by KEY.cls in
// NAME-000000.tar and so on, and `classes.txt` with the class names, one per line, in the order of
// their ids. Format: https://github.com/webdataset/webdataset, "The WebDataset Format".
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

struct ShardPlan {
  std::string name;                  // of the shards
  std::uint64_t shard_bytes = 0;     // maximum size of a shard
  int short_side = 0;                // larger images are resized to this; 0: bytes as stored
  int quality = 92;                  // JPEG quality of resized images
  bool even_shards = false;          // shards differ by one image at most, overall and per class
  std::vector<std::uint32_t> order;  // of the set's samples
};

struct PackedShards {
  std::size_t num_shards = 0;
  std::uint64_t num_bytes = 0;
  std::size_t num_reduced = 0;
  // Kept as they are: what cannot be reduced; without a short side, what is no image at all.
  std::vector<std::string> undecodable;
};

// Refuses `folder` before work starts, Error kFailedToWriteOutputs: it cannot be written, another
// run writes into it, it holds anything but names that begin with a dot and what a killed run left,
// or it is the input, inside it or around it.
void prepare_shard_output(const std::filesystem::path& folder, const std::filesystem::path& input);

// Memory: a few hundred images. All shards appear together, after the last one is complete; readers
// refuse a folder where a killed run had not got to its end. Error kInvalidDataset: an image cannot
// be read; kFailedToWriteOutputs.
PackedShards write_shards(const Dataset& set, ShardPlan plan, const std::filesystem::path& folder);

}  // namespace kiln
