// Which images a model was trained and chosen on, by hashes of their bytes, stored in the
// ModelDirectory as `seen_images.bin`. Little-endian:
//
//   8 bytes    "KILNSEEN"
//   4 bytes    version: 1
//   8 bytes    number of training hashes
//   8 bytes    number of validation hashes
//   6 bytes    a training hash, ascending, each once; then the validation hashes in the same way
//
// A hash is the upper 48 bits of content_hash() (base/content_hash.h), so an image that the model
// has not seen may be taken for one that it has: of 50,000 other images, looked up among 1.3
// million training images, 2.3e-4 are expected to be. Copies that differ in one byte are other
// images.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct SeenImages {
  std::vector<std::uint64_t> train, valid;  // 48 bits each, ascending, each once

  // Of the content_hash() of an image: a binary search.
  bool was_trained_on(std::uint64_t content_hash) const;
  bool was_chosen_on(std::uint64_t content_hash) const;  // the validation images

  bool operator==(const SeenImages&) const = default;
};

// From content_hash() of each image, in any order, repeated or not.
SeenImages make_seen_images(std::vector<std::uint64_t> train, std::vector<std::uint64_t> valid);

std::string pack_seen_images(const SeenImages& images);
// Throws Error kInvalidModelDirectory naming `where` (a path) and the fault. Takes no more memory
// than `bytes` justify.
SeenImages parse_seen_images(std::string_view bytes, const std::string& where);

}  // namespace kiln
