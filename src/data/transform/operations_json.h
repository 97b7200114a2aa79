// Parses the text of `_transforms.json` into its operations as written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/transform/operation_arguments.h"

namespace kiln {

struct WrittenOperation {
  std::string name;
  ArgumentValue arguments;
  std::string json;  // the arguments, indented by two spaces per level
};

constexpr std::size_t kMaxOperations = 100;

// Faults are added to `faults` as clauses, such as "it is not a JSON list".
std::vector<WrittenOperation> parse_operations_json(std::string_view json,
                                                    std::vector<std::string>& faults);

}  // namespace kiln
