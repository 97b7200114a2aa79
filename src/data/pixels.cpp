#include "data/pixels.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "data/decode.h"
#include "data/resize.h"

namespace kiln {

int usual_short_side(int size) {
  return static_cast<int>(std::lround(size * 256.0 / 224.0));
}

std::optional<Augment> augment_named(std::string_view word) {
  if (word == "none") return Augment::kNone;
  if (word == "flip") return Augment::kFlip;
  if (word == "standard") return Augment::kStandard;
  if (word == "strong") return Augment::kStrong;
  return std::nullopt;
}

struct PixelPath::Scratch {};

PixelPath::PixelPath(const PixelPlan& plan) : plan_(plan), scratch_(std::make_unique<Scratch>()) {}
PixelPath::~PixelPath() = default;
PixelPath::PixelPath(PixelPath&&) noexcept = default;

std::string PixelPath::write(std::string_view bytes, const DrawKey&, std::uint8_t* target) {
  DecodedImage decoded = decode_image(bytes);
  if (decoded.image.size != plan_.output) {
    if (plan_.short_side == 0) {
      const ImageSize size = decoded.image.size;
      throw ImageFault("its size is " + std::to_string(size.width) + " x " +
                       std::to_string(size.height) + ", not " + std::to_string(plan_.output.width) +
                       " x " + std::to_string(plan_.output.height));
    }
    decoded.image = resize_and_crop(decoded.image, plan_.output.width);
  }
  std::memcpy(target, decoded.image.pixels.data(), decoded.image.pixels.size());
  return std::move(decoded.damage);
}

}  // namespace kiln
