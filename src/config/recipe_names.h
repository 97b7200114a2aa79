// Which options a recipe is made of.
#pragma once

#include <string>
#include <vector>

namespace kiln {

// Those that --recipe may set, and what else decides the weights of a step; without dashes.
const std::vector<std::string>& recipe_names();

}  // namespace kiln
