#include "record/record_options.h"

#include <array>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace kiln {

RecordKeys parse_record_keys(const std::string& text) {
  RecordKeys keys;
  const std::array<std::pair<std::string, std::string*>, 4> parts = {
      {{"image", &keys.image}, {"label", &keys.label}, {"text", &keys.text}, {"name", &keys.name}}};
  std::istringstream all(text);
  for (std::string part; std::getline(all, part, ',');) {
    const std::size_t equals = part.find('=');
    bool is_known = false;
    for (const auto& [name, key] : parts) {
      if (equals == part.npos || part.substr(0, equals) != name) continue;
      *key = part.substr(equals + 1);
      is_known = !key->empty();
    }
    if (!is_known)
      throw std::invalid_argument("'" + part +
                                  "' is not image=KEY, label=KEY, text=KEY or name=KEY");
  }
  return keys;
}

}  // namespace kiln
