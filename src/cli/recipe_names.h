// The options that make up a recipe.
#pragma once

#include <string>
#include <vector>

namespace kiln {

// The options that --recipe may set, and the others that affect a weight update; without dashes.
const std::vector<std::string>& recipe_names();

}  // namespace kiln
