// A labeled dataset as shards NAME-000000.tar and so on, or .tfrecord, or .rec with .idx, and
// `classes.txt` with the class names, one per line, in the order of their ids. Tars have
// WebDataset's names, KEY.jpg followed by KEY.cls: https://github.com/webdataset/webdataset, "The
// WebDataset Format". shard_forms.h has the others. Several processes may write them together, into
// one folder or into several.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/output_folder.h"
#include "base/vocabulary.h"
#include "data/dataset/dataset.h"

namespace kiln {

struct ShardPlan {
  std::string name;               // of the shards
  std::uint64_t shard_bytes = 0;  // maximum size of a shard
  int short_side = 0;             // larger images are resized to this; 0: bytes as stored
  int quality = 92;               // JPEG quality of resized images
  bool even_shards = false;       // shards differ by one image at most, overall and per class
  // Of the set's samples; one may be there several times.
  std::vector<std::uint32_t> order;
  ShardFormat format = ShardFormat::kTar;
  // What this process writes: a stretch of the order as shards NAME-PART-000000.tar, or, of even
  // shards, those of a single process. Names in their order give the images in theirs.
  std::size_t part = 0, num_parts = 1;
};

struct PackedShards {
  std::size_t num_images = 0;
  std::size_t num_shards = 0;
  std::uint64_t num_bytes = 0;
  std::size_t num_reduced = 0;
  // Kept as they are: what cannot be reduced; without a short side, what is no image at all.
  std::vector<std::string> undecodable;
};

// Refuses `folder` before work starts, Error kFailedToWriteOutputs: it cannot be written, another
// run writes into it, it holds anything but names that begin with a dot and what a killed run left,
// or it is the input, inside it or around it. Holds it for this run.
OutputFolder take_shard_output(const std::filesystem::path& folder,
                               const std::filesystem::path& input);

// The shards of one part, complete under temporary names in a folder that somebody holds; removed
// again unless they are put in place. Memory: a few hundred images. Error kInvalidDataset: an image
// cannot be read; kFailedToWriteOutputs.
class CompleteShards {
 public:
  CompleteShards(const Dataset& set, ShardPlan plan, const std::filesystem::path& folder);

  const PackedShards& packed() const { return packed_; }
  std::vector<FinishedFile> files() const;
  // All appear together, with those of other processes and the list of classes; readers refuse a
  // folder where a killed run had not got to its end.
  void put_in_place(const OutputFolder& folder, const std::vector<FinishedFile>& of_others);

 private:
  PackedShards packed_;
  std::vector<DurableFile> files_;
  std::string classes_;
};

// By a single process, into a folder that is empty.
PackedShards write_shards(const Dataset& set, ShardPlan plan, const std::filesystem::path& folder);

}  // namespace kiln
