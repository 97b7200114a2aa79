// The codecs behind image.h: a pair of functions per format, one third-party library per .cpp.
// Every function throws ImageFault. Sizes are checked against kMaxImagePixels before pixels are
// allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "data/image/image.h"

namespace kiln::codec {

// Returns the size; throws ImageFault if a side is not positive or the image is larger than
// kMaxImagePixels.
ImageSize checked_size(std::uint64_t width, std::uint64_t height);

// Throws ImageFault if the file has fewer bytes than needed, so that a header alone cannot make us
// allocate memory.
void require_bytes(std::uint64_t available, std::uint64_t needed, std::string_view kind);

// The bytes without zeros at their end, if these are more than padding: what a copy leaves that was
// interrupted after the file was given its size. Codecs would take them for data.
std::string_view without_zero_tail(std::string_view bytes);

// Makes `part` the whole of an image of that size. Returns its pixels, all zero, in the part's own
// memory.
std::span<std::uint8_t> begin_whole(ImageSize size, ImagePart& part);

// A big-endian integer of `count` bytes from byte `at`; the caller has checked the bounds. (The
// little-endian ones are read by from_little_endian().)
std::uint64_t from_big(std::string_view bytes, std::size_t at, std::size_t count);

// Chooses all of an image.
inline WantedPart choose_whole(ImageSize whole) {
  return {{0, 0, whole}};
}

// Converts one pixel from CMYK (255 is full ink) to RGB, rounded as Pillow rounds.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb);

void decode_jpeg(std::string_view bytes, const ChoosePart& choose, ImagePart& part);
// The others decode the whole image.
void decode_png(std::string_view bytes, ImagePart& part);
void decode_bmp(std::string_view bytes, ImagePart& part);
void decode_pnm(std::string_view bytes, ImagePart& part);
void decode_tiff(std::string_view bytes, ImagePart& part);
void decode_webp(std::string_view bytes, ImagePart& part);
void decode_heic(std::string_view bytes, ImagePart& part);

// Visits the segments of a JPEG until `visit` returns false: the marker, and where it begins; its
// length and contents follow, of which only the length is certain to be within `bytes`.
void visit_jpeg_segments(std::string_view bytes,
                         const std::function<bool(std::uint8_t marker, std::size_t at)>& visit);

ImageSize read_jpeg_size(std::string_view bytes);
ImageSize read_png_size(std::string_view bytes);
ImageSize read_bmp_size(std::string_view bytes);
ImageSize read_pnm_size(std::string_view bytes);
ImageSize read_tiff_size(std::string_view bytes);
ImageSize read_webp_size(std::string_view bytes);
// As its own properties turn and crop it; also where it cannot be decoded.
ImageSize read_heic_size(std::string_view bytes);

// Why HEIC cannot be decoded on this machine, or empty. The first call opens the system's libheif.
const std::string& heic_fault();

// An entry of a TIFF directory.
struct TiffEntry {
  std::uint32_t tag = 0;
  bool is_integer = false;  // one or more of 16 or 32 bits, in the entry itself
  std::uint32_t value = 0;  // the first 16 bits if the type says so, else 32
};
// Visits the entries of the first directory (TIFF 6.0, section 2; BigTIFF has wider fields) until
// `visit` returns false. Returns false if the directory does not end within `bytes`, which begin as
// those of a TIFF.
bool visit_tiff_entries(std::string_view bytes, const std::function<bool(const TiffEntry&)>& visit);

// Throws the fault of a file that ends inside its header, or whose read part does.
[[noreturn]] void fail_in_header(std::string_view kind);

}  // namespace kiln::codec
