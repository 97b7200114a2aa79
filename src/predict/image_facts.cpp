#include "predict/image_facts.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "base/content_hash.h"

namespace kiln {

ImageFacts file_facts(std::string_view beginning, std::uint64_t file_bytes, ImageSize whole) {
  // Types have no order: any number that differs will do.
  const auto type = static_cast<float>(content_hash(image_kind(beginning)) >> 40);
  return {static_cast<float>(whole.width), static_cast<float>(whole.height),
          static_cast<float>(file_bytes), type};
}

ImageFacts image_facts(std::string_view bytes, const Image& image, ImageSize whole) {
  ImageFacts facts = file_facts(bytes, bytes.size(), whole);
  double sums[3] = {}, saturation = 0;
  for (std::size_t at = 0; at < image.size.num_pixels() * 3; at += 3) {
    const auto [least, most] =
        std::minmax({image.pixels[at], image.pixels[at + 1], image.pixels[at + 2]});
    saturation += most - least;
    for (std::size_t c = 0; c < 3; ++c) sums[c] += image.pixels[at + c];
  }
  const double luma = 0.299 * sums[0] + 0.587 * sums[1] + 0.114 * sums[2];  // ITU-R BT.601
  for (const double sum : {luma, sums[0] - sums[1], sums[2] - sums[1], saturation})
    facts.push_back(static_cast<float>(sum / static_cast<double>(image.size.num_pixels())));
  return facts;
}

}  // namespace kiln
