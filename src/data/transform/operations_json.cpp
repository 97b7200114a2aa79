#include "data/transform/operations_json.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ArgumentValue::Kind;

constexpr std::size_t kMaxBytes = 1 << 16;
constexpr std::size_t kMaxShown = 60;

std::string shown(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, kMaxShown);
}

// Values more than three levels deep lose their contents: no operation takes them as arguments.
ArgumentValue value_of(const Json& json, int depth = 0) {
  ArgumentValue value;
  value.shown = shown(json);
  if (json.is_boolean()) {
    value.kind = Kind::kTruth;
    value.truth = json.get<bool>();
  } else if (json.is_number()) {
    value.kind = Kind::kNumber;
    value.number = json.get<double>();
  } else if (json.is_string()) {
    value.kind = Kind::kText;
    value.text = json.get<std::string>();
  } else if (json.is_structured()) {
    value.kind = json.is_array() ? Kind::kList : Kind::kMapping;
    for (const auto& [name, item] : json.items()) {
      if (depth == 3) break;
      if (json.is_object()) value.names.push_back(name);
      value.items.push_back(value_of(item, depth + 1));
    }
  }
  return value;
}

// Indents every line after the first by four more spaces.
std::string indented(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "    ";
  }
  return result;
}

}  // namespace

std::vector<WrittenOperation> parse_operations_json(std::string_view json,
                                                    std::vector<std::string>& faults) {
  std::vector<WrittenOperation> operations;
  Json root;
  try {
    if (json.size() > kMaxBytes) throw JsonFault(1, "is larger than 64 KiB");
    root = parse_ordered_json(json);
  } catch (const JsonFault& fault) {
    faults.push_back(std::string("it ") + fault.what());
    return operations;
  }
  if (!root.is_array()) faults.push_back("it is not a JSON list of operations");
  if (root.is_array() && root.size() > kMaxOperations)
    faults.push_back("it has more than " + std::to_string(kMaxOperations) + " operations");
  if (!faults.empty()) return operations;
  for (const Json& element : root) {
    if (element.is_array() && element.size() == 2 && element[0].is_string()) {
      operations.push_back({element[0].get<std::string>(), value_of(element[1]),
                            indented(element[1].dump(2, ' ', true))});
    } else {
      faults.push_back("its element " + shown(element) +
                       " is not an operation, which is a list of a name and arguments");
    }
  }
  return operations;
}

}  // namespace kiln
