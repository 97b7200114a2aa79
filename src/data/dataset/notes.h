// What a person should know of a dataset: the notes of all readers are written in notes.cpp.
#pragma once

#include <string>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

// Options that were given and have no effect, because they are for data of another form, are said,
// so that nobody believes in them.

// "--a, --b have no effect: `why`".
std::string without_effect(const std::vector<std::string>& options, const std::string& why);

// That, of the options of `records`, and of `others`, that none of the sets has a use for; empty:
// there are none.
std::string note_of_unused(const RecordOptions& records, const std::vector<const Dataset*>& sets,
                           std::vector<std::string> others = {});

// Adds it to the notes of the only set.
void tell_unused(const RecordOptions& records, Dataset& set);

// Which folder to give, if there are no labels because images are nested deeper than class folders,
// as in the parent of train and val. Otherwise empty.
std::string depth_advice(const Dataset& set);

}  // namespace kiln
