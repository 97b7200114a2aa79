// A labeled image set as tar shards in WebDataset's naming: KEY.jpg and KEY.cls one after the
// other in NAME-000000.tar and so on, and `classes.txt`, whose lines are the names of the classes
// by number. Format: https://github.com/webdataset/webdataset, "The WebDataset Format".
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

struct ShardPlan {
  std::string name;               // of the shards
  std::uint64_t shard_bytes = 0;  // a shard ends before it grows beyond that
  int short_side = 0;             // images with a longer one are reduced to it; 0: bytes as stored
  int quality = 92;               // of the JPEG that a reduced image becomes
  bool even_shards = false;  // every shard has as many images (or one less), classes spread alike
  std::vector<std::uint32_t> order;  // of the set's samples
};

struct PackedShards {
  std::size_t num_shards = 0;
  std::uint64_t num_bytes = 0;
  std::size_t num_reduced = 0;
  std::vector<std::string> undecodable;  // to be reduced, and kept as they are
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
