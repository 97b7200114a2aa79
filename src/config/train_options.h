// The options of `kiln train`. For the table of options.cpp alone.
#pragma once

#include <vector>

#include "config/options.h"

namespace kiln {

std::vector<Option> train_options();

}  // namespace kiln
