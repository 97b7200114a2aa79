// The stored bytes of one image; and a whole dataset as bytes, for other ranks and for the index.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "data/dataset/dataset.h"

namespace kiln {

constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 30;

// Replaces `buffer` by the bytes of image `i` and reuses its capacity. Any number of threads.
// Throws ImageFault (data/image/image.h) if this image is missing, unreadable, larger than 1 GiB,
// or not what the archive's directory says; std::system_error if memory or descriptors are
// exhausted.
void read_image_bytes(const Dataset& set, std::size_t i, std::string& buffer);

// The same, but it may stop after the first `limit` bytes.
void read_first_bytes(const Dataset& set, std::size_t i, std::size_t limit, std::string& buffer);

// A dataset as bytes and back, so that one rank scans the folders for all.

// kList: everything except `root` and `name`, which each rank knows, and `notes` and `stamps`,
// which only the reading rank needs. kWithSources: these two as well.
enum class SetParts { kList, kWithSources };

std::string to_bytes(const Dataset& set, SetParts parts);

// Throws InternalError unless `bytes` is the result of to_bytes() of the same build. Archives are
// named but not open.
Dataset dataset_of(std::string_view bytes, SetParts parts);

}  // namespace kiln
