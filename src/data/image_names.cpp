#include "data/image_names.h"

#include <algorithm>
#include <array>

namespace kiln {
namespace {

// `known` is in small letters.
bool equal_in_any_case(std::string_view known, std::string_view found) {
  return std::ranges::equal(
      known, found, [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
}

}  // namespace

bool has_image_extension(std::string_view file_name) {
  constexpr std::array<std::string_view, 9> kExtensions = {".jpg", ".jpeg", ".png",  ".bmp", ".ppm",
                                                           ".pgm", ".tif",  ".tiff", ".webp"};
  const std::size_t dot = file_name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string_view extension = file_name.substr(dot);
  return std::ranges::any_of(
      kExtensions, [&](std::string_view known) { return equal_in_any_case(known, extension); });
}

bool has_archive_extension(std::string_view file_name) {
  constexpr std::array<std::string_view, 8> kExtensions = {
      ".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.zst", ".tzst"};
  return std::ranges::any_of(kExtensions, [&](std::string_view known) {
    return file_name.size() >= known.size() &&
           equal_in_any_case(known, file_name.substr(file_name.size() - known.size()));
  });
}

}  // namespace kiln
