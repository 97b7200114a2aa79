// The text of `_transforms.json` -> its operations, as they are written there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/transform/operation_arguments.h"

namespace kiln {

struct WrittenOperation {
  std::string name;
  ArgumentValue arguments;
  std::string json;  // of the arguments, two spaces a level, as an element of an operation's list
};

constexpr std::size_t kMaxOperations = 100;

// Faults are clauses, added to `faults`, such as "it is not a JSON list".
std::vector<WrittenOperation> parse_operations_json(std::string_view json,
                                                    std::vector<std::string>& faults);

}  // namespace kiln
