// The stored bytes of one image; and a whole dataset serialized for other ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "data/dataset/dataset.h"
#include "data/image/image.h"

namespace kiln {

// The system's error (an errno) on reading an image that is there.
struct UnreadableImage : ImageFault {
  explicit UnreadableImage(const std::system_error& fault);
  int error;
};

constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 30;

// Replaces `buffer` with the bytes of image `i`, of which it may stop after the first `limit`;
// reuses its capacity. Thread-safe. Throws ImageFault if the image is missing, unreadable
// (UnreadableImage), larger than 1 GiB, or differs from the archive's directory; std::system_error
// if memory or descriptors are exhausted.
void read_first_bytes(const Dataset& set, std::size_t i, std::size_t limit, std::string& buffer);
inline void read_image_bytes(const Dataset& set, std::size_t i, std::string& buffer) {
  read_first_bytes(set, i, SIZE_MAX, buffer);
}

// The same for a member of an open archive, but throws std::system_error for all of the system's
// errors.
void read_member(const OpenFile& file, const ArchiveMember& member, std::size_t limit,
                 std::string& buffer);

// How many bytes image `i` has; empty if its file is missing.
std::optional<std::uint64_t> stored_bytes(const Dataset& set, std::size_t i);

// Serializes a dataset, so that one rank can scan the folders for all.

// Everything except `root` and `name`, which each rank knows, and `notes`, which only the reading
// rank needs.
std::string to_bytes(const Dataset& set);

// Throws InternalError unless `bytes` is the result of to_bytes() from the same build. Archives are
// named but not open.
Dataset dataset_of(std::string_view bytes);

}  // namespace kiln
