// The module that draws pictures for people (modules/pictures/module.h), opened when the first one
// is made. Where it is missing, pictures are left out, and a warning says so.
#pragma once

#include <utility>

#include "base/log.h"
#include "data/image/image.h"
#include "modules/pictures/module.h"

namespace kiln {

// nullptr where it is missing. Thread-safe.
const PicturesModule* pictures_module();
// Throws Error kFailedToCompleteOperation where it is missing.
const PicturesModule& require_pictures_module();
// Where it is missing, says which pictures are left out, and why: the first time it is called.
void warn_without_pictures(Log& log);

inline Picture picture_of(Image image) {
  return {image.size.height, image.size.width, std::move(image.pixels)};
}
inline Image image_of(Picture picture) {
  return {{picture.height, picture.width}, std::move(picture.pixels)};
}

}  // namespace kiln
