// File bytes -> the pixels of one place in a batch: decoded, resized, cut and augmented as a
// PixelPlan says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/pixel_plan.h"

namespace kiln {

// Seconds of the stages of one image.
struct PixelTimes {
  double decode = 0;
  double resample = 0;  // or copying, and mirroring
  double augment = 0;   // what kStrong does to the pixels
};

// Keeps its memory from one image to the next. One thread; what it writes depends on the plan, the
// bytes and the key alone.
class PixelPath {
 public:
  PixelPath();
  ~PixelPath();
  PixelPath(PixelPath&&) noexcept;

  // Writes RGB, [output.height, output.width, 3], and nothing beyond it. Returns what is damaged in
  // an image that could be used, else nothing. Throws ImageFault.
  std::string write(std::string_view bytes, const PixelPlan& plan, const DrawKey& key,
                    std::uint8_t* target);

  // Of the last image that write() returned from.
  const PixelTimes& times() const;

  // Bytes kept for decoded pixels, and to keep at least.
  std::size_t room() const;
  void make_room(std::size_t bytes);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

// Whether write() mirrors the image of this key.
bool draws_mirror(const PixelPlan& plan, const DrawKey& key);

// Left to right; RGB, [size.height, size.width, 3].
void mirror_in_place(std::uint8_t* pixels, ImageSize size);

}  // namespace kiln
