// Antialiased bilinear resampling of 8-bit RGB, as Pillow's BILINEAR and torchvision's
// antialias=True: a triangle filter that widens with the reduction factor, with weights normalized
// over the pixels inside the image. Pillow's other filters are a function of their own, which is
// slower.
//
// Rows are combined first, then columns, one output row at a time, in 16-bit fixed point with 8
// fractional bits (in floats if an image shrinks more than about a hundredfold). Nothing is rounded
// to 8 bits in between. Results differ from either library by at most 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/image/image.h"

namespace kiln {

// One axis of a resize: `length` pixels starting at `begin` are resized to `resized` pixels, of
// which `count` starting at `first` are wanted.
struct ResampleAxis {
  double begin = 0;
  double length = 0;
  int resized = 0;
  int first = 0;
  int count = 0;
};

// How an image is resized and cropped to its output.
struct Placing {
  ResampleAxis rows, columns;
};

// `crop` of an image, resized to `out`.
Placing place_crop(const Region& crop, ImageSize out);

// Half of `excess`, rounded half to even as Python's round does.
int center_offset(int excess);

// The size of an image of size `from` after its short side is resized to `short_side` and its
// aspect ratio kept, as torchvision's Resize does: the long side is rounded down. Throws ImageFault
// if that is too long.
ImageSize resized_size(ImageSize from, int short_side);
// The least size of an image of size `from`, its aspect ratio kept, that covers `out`: one side is
// equal, the other rounded down. Throws ImageFault if it is too long.
ImageSize covering_size(ImageSize from, ImageSize out);
// The largest size of an image of size `from`, its aspect ratio kept, inside of `out`: one side is
// equal, the other rounded down, but at least 1.
ImageSize inner_size(ImageSize from, ImageSize out);

// Copies `wanted`, which lies inside the view, to `target` as RGB rows without padding, mirrored if
// requested.
void copy_region(const PixelView& view, const Region& wanted, bool mirror, std::uint8_t* target);

// The source pixels needed for the wanted ones.
Region needed_region(const ResampleAxis& rows, const ResampleAxis& columns);

// Reuses its memory from image to image. Use from one thread.
class Resampler {
 public:
  // `view` contains at least needed_region(). Writes exactly [rows.count, columns.count, 3] to
  // `target`; with `mirror`, each row from right to left.
  void write(const PixelView& view, const ResampleAxis& rows, const ResampleAxis& columns,
             bool mirror, std::uint8_t* target);

 private:
  // For one axis: wanted pixel i combines the `taps` pixels from starts[i] on.
  struct Taps {
    int taps = 0;
    std::vector<int> starts;             // in the image
    std::vector<std::uint16_t> weights;  // [count, taps], in 1/65536
  };
  void set_taps(const ResampleAxis& axis, Taps& taps);
  void write_in_floats(const PixelView& view, const ResampleAxis& rows, const ResampleAxis& columns,
                       bool mirror, std::uint8_t* target);
  void lay_out_columns(int left, bool mirror);
  void write_row(const std::uint16_t* row, std::uint8_t* target) const;
  template <std::size_t kPairs>
  void write_row(const std::uint16_t* row, std::uint8_t* target) const;

  Taps rows_, columns_;
  std::vector<double> weights_;                // weights of one pixel's taps
  std::vector<int> column_offsets_;            // [count] of samples in row_
  std::vector<std::uint16_t> column_weights_;  // [count, pairs of taps, 8]; see lay_out_columns
  std::vector<const std::uint8_t*> inputs_;    // [rows_.taps]
  std::vector<std::uint16_t> row_;             // one output row before its columns are combined
};

// The whole image at another size.
Image resized(const Image& image, ImageSize to);
// A part of the image as one of its own.
Image cut_out(const Image& image, const Region& part);

// How values between pixels are interpolated; numbered as in Pillow.
enum class Interpolation { kNearest, kLanczos, kBilinear, kBicubic, kBox, kHamming };

// Resizes `region` of an image of size `whole` to [resized.height, resized.width, 3] with one of
// Pillow's filters other than bilinear, giving Pillow's results: each pixel is a weighted sum of
// the pixels within reach of the filter, first along rows, then along columns, rounded to 8 bits
// after each pass. `scratch` is reusable memory.
void resize_with_filter(const std::uint8_t* pixels, ImageSize whole, const Region& region,
                        ImageSize resized, Interpolation filter, std::vector<std::uint8_t>& scratch,
                        std::uint8_t* target);

}  // namespace kiln
