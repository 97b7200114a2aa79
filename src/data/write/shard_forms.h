// The forms of shards: how an image and its class become bytes of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/vocabulary.h"

namespace kiln {

struct ShardItem {
  std::size_t position = 0;  // in the whole dataset
  int label = 0;
  std::string_view class_name;
  std::string_view name;       // of the image's file, as it was listed
  std::string_view extension;  // of the bytes: "jpg"
  std::string_view bytes;
};

// Writes one shard after another. One thread.
class ShardForm {
 public:
  virtual ~ShardForm() = default;
  // Of a shard's file name: ".tar".
  virtual std::string extension() const = 0;
  // The bytes of an image, which follow those of the one before it in the shard.
  virtual std::string item(const ShardItem& item) const = 0;
  // Where in its shard the image was put.
  virtual void note_place(std::size_t /*position*/, std::uint64_t /*offset*/) {}
  // The bytes behind the last image.
  virtual std::string end() const { return {}; }
  // The contents of the file `.idx` beside the shard that has just ended; empty: there is none.
  virtual std::string index() { return {}; }
};

std::unique_ptr<ShardForm> make_shard_form(ShardFormat format);

// The largest image that the form can hold.
std::uint64_t most_image_bytes(ShardFormat format);

}  // namespace kiln
