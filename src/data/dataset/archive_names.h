// The meaning of file names in an archive of images.
#pragma once

#include <string_view>

#include "data/dataset/folder_entries.h"

namespace kiln {

// Excludes hidden files and macOS companion files.
inline bool is_archived_image(std::string_view name) {
  const std::string_view base = name.substr(name.rfind('/') + 1);
  return has_image_extension(base) && !base.starts_with('.') && !name.starts_with("__MACOSX/");
}

// Whether this file may be meant for an image, such as a photo that Kiln does not read.
inline bool is_other_file(std::string_view name) {
  const std::string_view base = name.substr(name.rfind('/') + 1);
  return !base.empty() && !has_image_extension(base) && !base.starts_with('.') &&
         !name.starts_with("__MACOSX/") && !base.ends_with(".cls");
}

// Whether this file holds the class of the image with the same key (WebDataset).
inline bool is_label_file(std::string_view name) {
  return name.ends_with(".cls");
}

// WebDataset's key: the file name up to its first dot.
inline std::string_view key_of(std::string_view name) {
  const std::size_t begin = name.rfind('/') + 1;
  return name.substr(0, name.find('.', begin));
}

}  // namespace kiln
