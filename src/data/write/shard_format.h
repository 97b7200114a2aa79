// How images lie in a shard: one after another, whole, with their classes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln {

struct ShardImage {
  std::string_view key;        // of nine digits: the image's place in the whole order
  std::string_view extension;  // of its file, without the dot
  std::string_view bytes;
  int label = 0;
  std::string_view class_name;
};

// Stateless; any thread.
class ShardFormat {
 public:
  ShardFormat() = default;
  virtual ~ShardFormat() = default;
  ShardFormat(const ShardFormat&) = delete;
  ShardFormat& operator=(const ShardFormat&) = delete;

  virtual std::string_view extension() const = 0;  // of a shard, with the dot
  virtual std::string record(const ShardImage& image) const = 0;
  // About the length of the record of an image of `num_bytes`.
  virtual std::uint64_t record_bytes(std::uint64_t num_bytes) const = 0;
  virtual std::string end() const = 0;  // what follows the last record
};

// KEY.jpg followed by KEY.cls. Format: https://github.com/webdataset/webdataset, "The WebDataset
// Format".
const ShardFormat& tar_shards();

}  // namespace kiln
