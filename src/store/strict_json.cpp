#include "store/strict_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "store/state_dict_file.h"

namespace kiln {

using Json = nlohmann::json;

// The parser keeps the last of two equal keys, so they are caught while it runs.
Json parse_strict_json(std::string_view text, int max_depth, const std::string& what) {
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > max_depth) throw FormatFault(what + " is nested too deeply");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      throw FormatFault(what + " has the key '" + parsed.get<std::string>().substr(0, 200) +
                        "' twice");
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception&) {
    throw FormatFault(what + " is not valid JSON");
  }
}

}  // namespace kiln
