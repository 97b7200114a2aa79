// How a camera was held, as image files tell it, and turning pictures upright.
#pragma once

#include <optional>
#include <string_view>

#include "data/image/image.h"
#include "record/vocabulary.h"

namespace kiln {

// The EXIF orientation of an image file, 1 (upright) to 8, as Pillow reads it from JPEG's APP1
// segment, PNG's eXIf chunk, WebP's EXIF chunk or TIFF's own tag (CIPA DC-008, 4.6.4 A; XMP is not
// read). 1 if it has none, or none that is valid. Empty if a WebP announces EXIF data that is not
// in `bytes`, which may be the beginning of the file or anything else. Reads headers only, and
// never fails.
std::optional<int> read_orientation(std::string_view bytes);

// The way from stored pixels to upright ones: transposed, then flipped.
class Orientation {
 public:
  // `exif` is a value of read_orientation().
  explicit Orientation(int exif = 1);

  ImageSize upright(ImageSize stored) const;
  // Chooses the part of the stored image that the upright part comes from. `choose` must outlive
  // the result.
  ChoosePart choosing(const ChoosePart& choose) const;
  // Turns a part that was chosen so.
  void turn_upright(ImagePart& part) const;

 private:
  Region stored_region(const Region& upright, ImageSize stored) const;
  Region upright_region(const Region& stored, ImageSize whole) const;

  bool is_upright_, transposes_, flips_rows_, flips_columns_;
};

}  // namespace kiln
