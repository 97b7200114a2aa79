// Whether folders that a command line names lie in each other's way.
#pragma once

#include <string>

#include "config/binder.h"

namespace kiln {

// Also where both are one folder. Paths need not exist; an empty one lies nowhere.
bool lies_inside(const std::string& inner, const std::string& outer);

// A fault of `output_name` where the output is in, around or at the input: it would be read as
// data, or overwrite it.
void require_apart(Binder& binder, const char* output_name, const std::string& output,
                   const char* input_name, const std::string& input);

}  // namespace kiln
