// The stored bytes of one image; and a whole dataset as bytes, for other ranks and for the index.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "data/dataset/dataset.h"

namespace kiln {

// The stored bytes of one image, wherever it lies: a file of its own, or part of an archive.

constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 30;

// Replaces `buffer` by the bytes of image `i`; its capacity is used again. Any number of threads.
// Throws ImageFault (data/image/image.h) for what is wrong with this image: missing, unreadable,
// larger than 1 GiB, or not what the archive's directory says. std::system_error: memory or
// descriptors are used up.
void read_image_bytes(const Dataset& set, std::size_t i, std::string& buffer);

// As above, but it may stop after the first `limit` bytes.
void read_first_bytes(const Dataset& set, std::size_t i, std::size_t limit, std::string& buffer);

// An image set as bytes and back, so that one rank scans the folders and the others take its word.

// kList: everything but `root` and `name`, which each rank knows, and `notes` and `stamps`, which
// only the reader tells. kWithSources: these two as well.
enum class SetParts { kList, kWithSources };

std::string to_bytes(const Dataset& set, SetParts parts);

// `bytes` is what to_bytes() of the same build made; throws InternalError otherwise. Archives are
// named but not open.
Dataset dataset_of(std::string_view bytes, SetParts parts);

}  // namespace kiln
