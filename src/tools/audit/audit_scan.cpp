#include "tools/audit/audit_scan.h"

#include <algorithm>

namespace kiln {
namespace {

constexpr double kWantedSide = 256;  // longer side of an image when it is measured

double shrink_to_measure(ImageSize whole) {
  return std::max(1.0, std::max(whole.height, whole.width) / kWantedSide);
}

}  // namespace

ImageLooks look_at_images(Dataset& set, int num_threads) {
  ImageLooks images;
  images.measures.resize(set.samples.size());
  images.scanned = scan_images(
      set,
      {.num_threads = num_threads,
       .shrink = shrink_to_measure,
       .visit = [&images](std::size_t i, const Image& image,
                          ImageSize whole) { images.measures[i] = measure_image(image, whole); },
       .decode_all = true});
  return images;
}

}  // namespace kiln
