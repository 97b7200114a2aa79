// The interface of libkiln_pictures.so, which draws pictures for people with OpenCV: nothing that a
// network sees or that decides comes from it. Uses only standard C++ types: the program includes no
// OpenCV headers, and the module needs no symbols from the program. All functions are pure and
// thread-safe, and use the calling thread alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

// RGB, [height, width, 3], rows without padding; at least one pixel.
struct Picture {
  int height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
};

// Brightness is luma (ITU-R BT.601), from 0 to 255.
struct Brightness {
  std::array<float, 256> counts{};  // of pixels
  double deviation = 0;
  double detail = 0;  // deviation of the Laplacian of inner pixels; -1: there are none
};

struct CaptionedPicture {
  Picture picture;
  std::string caption;  // one line; what is not ASCII is shown as '?'
};

struct PicturesModule {
  int version;  // kPicturesModuleVersion of the build
  // Shrunk by area to this longest side; smaller pictures stay as they are.
  Picture (*shrunk)(Picture picture, int longest_side);
  // The picture in gray, blended half and half with the colors of `heat`: viridis, whose lightness
  // rises evenly from dark violet for 0 to yellow for 1. `heat`: [rows, columns], enlarged
  // bilinearly.
  Picture (*with_heat_map)(const Picture& picture, const float* heat, int rows, int columns);
  Brightness (*brightness)(const Picture& picture);
  // A grid, row by row, with each caption below its picture, cut to its width. `pictures`: at least
  // one. Those that are much smaller than their place are enlarged.
  Picture (*contact_sheet)(const std::vector<CaptionedPicture>& pictures, int columns);
  // Of `values`, [rows, columns], in descending order. For tests: computed by LAPACK, whose names
  // LibTorch also exports.
  std::vector<double> (*singular_values)(std::vector<double> values, int rows, int columns);
};

// Increased whenever the structures above change, so that parts of two builds are never combined.
inline constexpr int kPicturesModuleVersion = 1;

// The exported function, of type `const PicturesModule*()`.
inline constexpr const char* kPicturesModuleSymbol = "kiln_pictures_module";

}  // namespace kiln
