// The result of `kiln inspect` as a table.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kiln {

// The output in order, printed as a table or as JSON.
using InspectReport = nlohmann::ordered_json;

// One line per key; a list of objects becomes a table under its key.
std::string table_text(const InspectReport& report);

}  // namespace kiln
