// Writes a labeled dataset as shards NAME-000000.tar and so on, or .tfrecord, or .rec with .idx,
// and `classes.txt` with the class names, one per line, in the order of their ids; of images that
// are not turned, as those of an ImageDirectory, also `source.txt`, which says ImageDirectory. Tars
// use WebDataset's names, KEY.jpg followed by KEY.cls: https://github.com/webdataset/webdataset,
// "The WebDataset Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
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
  std::size_t num_images = 0;
  std::size_t num_shards = 0;
  std::uint64_t num_bytes = 0;
  std::size_t num_reduced = 0;
  // Images stored unchanged because they could not be decoded; without a short side, only those
  // that are not images at all.
  std::vector<std::string> undecodable;
};

// Locks `folder` for this run. Checks it before work starts, and throws Error kFailedToWriteOutputs
// if it cannot be written, another run is writing into it, it holds anything but names that start
// with a dot and leftovers of a killed run, or it is the input, inside it or a parent of it.
OutputFolder take_shard_output(const std::filesystem::path& folder,
                               const std::filesystem::path& input);

// Makes all shards and the list of classes appear together in a folder that was taken for them.
// Readers refuse a folder where a killed run did not finish this. Uses all processors. Memory: a
// few hundred images. Throws Error kInvalidDataset if an image cannot be read;
// kFailedToWriteOutputs.
PackedShards write_shards(const Dataset& set, ShardPlan plan, const OutputFolder& folder);

// The formats of shards: how an image and its class are stored in a file.

struct ShardItem {
  std::size_t position = 0;  // in the whole dataset
  int label = 0;
  std::string_view class_name;
  std::string_view name;       // the image's file name, as listed
  std::string_view extension;  // matching `bytes`: "jpg"
  std::string_view bytes;
};

// Formats one shard after another. Use from one thread.
class ShardForm {
 public:
  virtual ~ShardForm() = default;
  // The extension of a shard's file name: ".tar".
  virtual std::string extension() const = 0;
  // The bytes of an image, to be appended to the shard after those of the previous one.
  virtual std::string item(const ShardItem& item) const = 0;
  // Tells where in its shard the image was stored.
  virtual void note_place(std::size_t /*position*/, std::uint64_t /*offset*/) {}
  // The bytes after the last image.
  virtual std::string end() const { return {}; }
  // The contents of the `.idx` file next to the shard that has just ended; empty if there is none.
  virtual std::string index() { return {}; }
};

std::unique_ptr<ShardForm> make_shard_form(ShardFormat format);

// The largest image that the format can hold.
std::uint64_t max_image_bytes(ShardFormat format);

// An order of images in which every class has equally many, by repeating images of small classes.

// The images in order, each repeated as often as its class needs to match the largest one: in a
// class with n images and m wanted, each comes m / n times, and m % n of them, drawn from the seed,
// once more. Every sample must have a label. A pure function of labels and seed.
std::vector<std::uint32_t> balanced_copies(const SampleTable& samples, std::uint64_t seed);

}  // namespace kiln
