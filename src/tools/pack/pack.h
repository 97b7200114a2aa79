// Writes a labeled dataset as shards NAME-000000.tar and so on, or .tfrecord, or .rec with .idx,
// and `classes.txt` with the class names, one per line, in the order of their ids; of images that
// are not turned, as those of an ImageDirectory, also `source.txt`, which says ImageDirectory. Tars
// use WebDataset's names, KEY.jpg followed by KEY.cls: https://github.com/webdataset/webdataset,
// "The WebDataset Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/output_folder.h"
#include "data/dataset/dataset.h"
#include "record/vocabulary.h"

namespace kiln {

struct ShardPlan {
  std::string name;               // prefix of the shards' names
  std::uint64_t shard_bytes = 0;  // maximum size of a shard
  int short_side = 0;             // larger images are resized to this; 0: bytes as stored
  int quality = 92;               // JPEG quality of resized images
  bool even_shards = false;       // shards differ by at most one image, overall and per class
  // Indices into the set's samples, which may be repeated. Sorted by name, the shards hold the
  // images in this order; with even_shards, with each class spread evenly over it.
  std::vector<std::uint32_t> order;
  ShardFormat format = ShardFormat::kTar;
};

struct PackedShards {
  std::size_t num_shards = 0, num_reduced = 0;
  std::uint64_t num_bytes = 0;
  // Images stored unchanged because they could not be decoded; without a short side, only those
  // that are not images at all.
  std::vector<std::string> undecodable;
  std::vector<std::string> damaged;  // partly decodable, and stored unchanged: training tells them
};

// Locks the folder for this run. Checks it before work starts, and throws Error
// kFailedToWriteOutputs if it cannot be written, another run is writing into it, it holds anything
// but names that start with a dot and leftovers of a killed run, or it is the input, inside it or a
// parent of it.
OutputFolder take_shard_output(const std::filesystem::path& path,
                               const std::filesystem::path& input);

// Makes all shards and the list of classes appear together in a folder that was taken for them.
// Readers refuse a folder where a killed run did not finish this. Uses all processors. Memory: a
// few hundred images. Notes the hashes of the images. Throws Error kInvalidDataset if an image
// cannot be read; kFailedToWriteOutputs.
PackedShards write_shards(Dataset& set, ShardPlan plan, const OutputFolder& folder);

// The largest image that the format can hold.
std::uint64_t max_image_bytes(ShardFormat format);

// The images in order, each repeated as often as its class needs to match the largest one: in a
// class with n images and m wanted, each comes m / n times, and m % n of them, drawn from the seed,
// once more. Every sample must have a label. A pure function of labels and seed.
std::vector<std::uint32_t> balanced_copies(const SampleTable& samples, std::uint64_t seed);

}  // namespace kiln
