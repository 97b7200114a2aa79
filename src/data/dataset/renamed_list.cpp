// Renames the images in the list of an ImageDirectory.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

// Formats `value` on one line, with spaces after commas and colons, as Python's json.dumps does.
std::string spaced(const Json& value) {
  if (!value.is_structured()) return value.dump(-1, ' ', true);
  std::string text;
  for (const auto& [key, item] : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += quote_json(key) + ": ";
    text += spaced(item);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

// Changes every occurrence of a repeated key, since readers use the last one.
void rename(Json& row, const std::string& image_key, const std::string& name) {
  for (auto& [key, info] : row.get_ref<Json::object_t&>()) {
    if (key != image_key || !info.is_object()) continue;
    for (auto& [inner, value] : info.get_ref<Json::object_t&>())
      if (inner == "file_name") value = name;
  }
}

}  // namespace

std::string renamed_list(std::string_view bytes, const std::string& file, const ListSchema& schema,
                         const std::vector<std::string>& names, const DatasetContext& context) {
  const ListedImages listed = parse_image_list(bytes, file, schema, context);
  if (listed.lines.size() != names.size())
    context.fail(file + " was changed while it was read. Try again.");
  std::string text;
  auto wanted = listed.lines.begin();
  for (int line = 1; wanted != listed.lines.end(); ++line) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    if (line == *wanted) {
      Json row = parse_ordered_json(bytes.substr(0, end));
      rename(row, schema.image_key, names[static_cast<std::size_t>(wanted - listed.lines.begin())]);
      text += spaced(row) + "\n";
      ++wanted;
    }
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  return text;
}

}  // namespace kiln
