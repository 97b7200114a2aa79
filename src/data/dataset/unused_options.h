// Options that were given and have no effect, because they are for data of another form. They are
// said, so that nobody believes in them.
#pragma once

#include <string>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

// "--a, --b have no effect: `why`".
std::string without_effect(const std::vector<std::string>& options, const std::string& why);

// That, of the options of `records`, and of `others`, that none of the sets has a use for; empty:
// there are none.
std::string note_of_unused(const RecordOptions& records, const std::vector<const Dataset*>& sets,
                           std::vector<std::string> others = {});

// Adds it to the notes of the only set.
void tell_unused(const RecordOptions& records, Dataset& set);

}  // namespace kiln
