#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace kiln {
namespace {

int line_of(std::string_view text, std::size_t offset) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size()));
  return 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
}

// Checked before parsing, so that no deep value is ever built.
void check_depth(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMaxJsonDepth) {
      throw JsonFault(line_of(text, i),
                      "is nested more than " + std::to_string(kMaxJsonDepth) + " levels deep");
    }
  }
}

// The library's message without its prefix, shortened and printable.
std::string reason_of(std::string_view what) {
  const std::size_t column = what.find("column ");
  const std::size_t colon = what.find(": ", column == std::string_view::npos ? 0 : column);
  if (colon != std::string_view::npos) what.remove_prefix(colon + 2);
  std::string reason(what.substr(0, 160));
  for (char& c : reason) {
    if (c < ' ' || c > '~') c = '?';
  }
  return reason;
}

// The parser keeps the last of two equal keys, so they are caught while it runs.
nlohmann::json parse_with_unique_keys(std::string_view text) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;
  return nlohmann::json::parse(text, [&](int, Event event, nlohmann::json& parsed) {
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw JsonFault(1, "has the key '" + parsed.get<std::string>().substr(0, 200) + "' twice");
    return true;
  });
}

}  // namespace

nlohmann::json parse_json(std::string_view text, RepeatedKeys repeated) {
  check_depth(text);
  try {
    return repeated == RepeatedKeys::kRefused ? parse_with_unique_keys(text)
                                              : nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& fault) {
    const std::size_t offset = fault.byte == 0 ? 0 : fault.byte - 1;
    throw JsonFault(line_of(text, offset), "is not valid JSON: " + reason_of(fault.what()));
  } catch (const nlohmann::json::exception& fault) {
    throw JsonFault(1, std::string("is not valid JSON: ") + reason_of(fault.what()));
  }
}

std::string json_kind(const nlohmann::json& value) {
  if (value.is_null()) return "null";
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "true or false";
  return "a number";
}

std::string quote_json(std::string_view text) {
  try {
    return nlohmann::json(text).dump(-1, ' ', true);
  } catch (const nlohmann::json::exception&) {
    throw std::invalid_argument("not UTF-8");
  }
}

}  // namespace kiln
