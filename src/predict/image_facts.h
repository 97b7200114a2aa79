// What can be known of an image without looking at what it shows.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/image/image.h"

namespace kiln {

// What comes with an image: width, height, bytes and type of its file and, if its pixels were
// looked at, their brightness and color. Empty: unknown.
using ImageFacts = std::vector<float>;

// `beginning`: at least 16 bytes of the file, of `file_bytes`; `whole`: the size as stored.
ImageFacts file_facts(std::string_view beginning, std::uint64_t file_bytes, ImageSize whole);
// With the means of all pixels; `image` may be reduced.
ImageFacts image_facts(std::string_view bytes, const Image& image, ImageSize whole);

}  // namespace kiln
