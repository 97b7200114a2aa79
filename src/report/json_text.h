// What all JSON that is written here shares: numbers, pairs of texts, and how it becomes text.
#pragma once

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "report/run_record.h"

namespace kiln {

using Json = nlohmann::ordered_json;

// JSON has no word for numbers that are not finite.
inline Json as_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}
inline void from_json(const Json& json, double& value) {
  if (!json.is_string()) {
    value = json.get<double>();
    return;
  }
  const auto text = json.get<std::string>();
  if (text == "NaN")
    value = std::numeric_limits<double>::quiet_NaN();
  else if (text == "Infinity" || text == "-Infinity")
    value = (text[0] == '-' ? -1 : 1) * std::numeric_limits<double>::infinity();
  else
    throw std::invalid_argument("'" + text + "' is no number");
}

inline Json as_json(const TextPairs& pairs) {
  Json object = Json::object();
  for (const auto& [name, value] : pairs) object[name] = value;
  return object;
}
inline void from_json(const Json& json, TextPairs& pairs) {
  pairs.clear();
  for (const auto& [name, value] : json.items()) pairs.emplace_back(name, value.get<std::string>());
}

// In ASCII, whatever the texts in it hold: bytes that are no UTF-8 become U+FFFD. `indent`: -1 for
// a single line, else of spaces.
inline std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace kiln
