// JSON of untrusted files: the depth is bounded, and no key may stand twice in an object.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace kiln {

// Throws FormatFault, a clause that begins with `what`, such as "its header".
nlohmann::json parse_strict_json(std::string_view text, int max_depth, const std::string& what);

}  // namespace kiln
