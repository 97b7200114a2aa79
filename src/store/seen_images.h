// The images that a model was trained on, and those of validation by which it was chosen, as hashes
// of their bytes. Stored in the ModelDirectory as `seen_images.bin`, little-endian:
//
//   8 bytes    "KILNSEEN"
//   4 bytes    version: 1
//   8 bytes    number of training hashes
//   8 bytes    number of validation hashes
//   6 bytes    per training hash, ascending and unique; then the validation hashes likewise
//
// A hash is the upper 48 bits of content_hash() (base/content_hash.h), so an unseen image may be
// mistaken for a seen one: looking up 50,000 unseen images among 1.3 million training images gives
// 2.3e-4 false matches on average. Copies that differ in a single byte count as different images.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct SeenImages {
  std::vector<std::uint64_t> train, valid;  // 48 bits each, ascending and unique

  // Looks up an image's content_hash() by binary search.
  bool was_trained_on(std::uint64_t content_hash) const;
  bool was_chosen_on(std::uint64_t content_hash) const;  // the validation images

  bool operator==(const SeenImages&) const = default;
};

// Takes the content_hash() of each image, in any order; duplicates are allowed.
SeenImages make_seen_images(std::vector<std::uint64_t> train, std::vector<std::uint64_t> valid);

std::string pack_seen_images(const SeenImages& images);
// Throws Error kInvalidModelDirectory naming `where` (a path) and the fault. Uses memory at most in
// proportion to `bytes`.
SeenImages parse_seen_images(std::string_view bytes, const std::string& where);

}  // namespace kiln
