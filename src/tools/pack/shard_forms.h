// The formats of shards: how an image and its class are stored in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "record/vocabulary.h"

namespace kiln {

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

}  // namespace kiln
