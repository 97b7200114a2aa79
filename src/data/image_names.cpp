#include "data/image_names.h"

#include <algorithm>
#include <array>

namespace kiln {

bool has_image_extension(std::string_view file_name) {
  constexpr std::array<std::string_view, 9> kExtensions = {".jpg", ".jpeg", ".png",  ".bmp", ".ppm",
                                                           ".pgm", ".tif",  ".tiff", ".webp"};
  const std::size_t dot = file_name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string_view extension = file_name.substr(dot);
  const auto is_it = [&](std::string_view known) {
    return std::ranges::equal(known, extension, [](char a, char b) {
      return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b);
    });
  };
  return std::ranges::any_of(kExtensions, is_it);
}

}  // namespace kiln
