// Names of classes for people: any text that a data set holds, made fit to be shown.
#pragma once

#include <string>
#include <string_view>

#include "report/run_record.h"

namespace kiln {

// Printable, and cut to `most` characters with an ellipsis.
std::string shortened(std::string_view text, std::size_t most);

// Of the class `label`, at most 40 characters; "class 7" where the record has no name for it.
std::string class_name(const DataRecord& data, int label);

// The same in quotes for a sentence, between the isolating marks of Unicode (UAX 9), so that a
// right-to-left name does not turn the sentence around.
std::string quoted_class(const DataRecord& data, int label);

// Of the class `label` in `counts`; 0 where there is none.
long long count_of(const std::vector<long long>& counts, int label);

}  // namespace kiln
