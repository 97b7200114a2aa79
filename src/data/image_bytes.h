// The stored bytes of one image, wherever it lies: a file of its own, or part of an archive.
#pragma once

#include <cstddef>
#include <string>

#include "data/image_set.h"

namespace kiln {

constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 30;

// Replaces `buffer` by the bytes of image `i`; its capacity is used again. Any number of threads.
// Throws ImageFault (data/decode.h) for what is wrong with this image: missing, unreadable, larger
// than 1 GiB, or not what the archive's directory says. std::system_error: memory or descriptors
// are used up.
void read_image_bytes(const ImageSet& set, std::size_t i, std::string& buffer);

// As above, but it may stop after the first `limit` bytes.
void read_first_bytes(const ImageSet& set, std::size_t i, std::size_t limit, std::string& buffer);

}  // namespace kiln
