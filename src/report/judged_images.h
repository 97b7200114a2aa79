// Judged images as text and back, for the way from one rank to another.
#pragma once

#include <string>
#include <vector>

#include "base/training_record.h"

namespace kiln {

std::string pack_judged_images(const std::vector<JudgedImage>& images);
std::vector<JudgedImage> unpack_judged_images(const std::string& text);

}  // namespace kiln
