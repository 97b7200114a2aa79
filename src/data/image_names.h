// Which files count as images or archives: by name, since opening each would take long.
#pragma once

#include <string_view>

namespace kiln {

// .jpg .jpeg .png .bmp .ppm .pgm .tif .tiff .webp, in any case.
bool has_image_extension(std::string_view file_name);

// .zip .tar .tar.gz .tgz .tar.bz2 .tbz2 .tar.zst .tzst, in any case.
bool has_archive_extension(std::string_view file_name);

// The end of an error's advice: which those are.
constexpr const char* kImageNamesAdvice =
    "images end in .jpg, .jpeg, .png, .bmp, .ppm, .pgm, .tif, .tiff or .webp.";

}  // namespace kiln
