#include "cli/mpi_options.h"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace kiln {
namespace {

bool is_variable_name(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// True for the variables that tell a rank what started it. They are set for every rank and must not
// be overridden.
bool is_own(std::string_view name) {
  return name == "KILN_LAUNCHED" || name == "KILN_PASS_ON" || name.starts_with("OMPI_COMM_WORLD_");
}

}  // namespace

MpiOptions read_mpi_options(const std::string& text, const std::string& where) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  MpiOptions options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_variable = words[i] == "-x";
    std::string value = is_variable && i + 1 < words.size() ? words[i + 1] : "";
    const std::string name = value.substr(0, value.find('='));
    if (is_variable && !is_variable_name(name))
      throw Error(ErrorCode::kParameterParsing,
                  where + " has -x" + (value.empty() ? "" : " " + excerpt(value)) +
                      ", but needs the name of a variable: -x NAME=VALUE or -x NAME.");
    if (is_variable && !is_own(name)) {
      ++i;
      options.names.push_back(name);
      if (name != value) options.variables.emplace_back(name, value.substr(name.size() + 1));
      continue;
    }
    std::string ignored = words[i];  // with its arguments
    while (i + 1 < words.size() && !words[i + 1].starts_with('-')) ignored += " " + words[++i];
    options.ignored.push_back("'" + excerpt(ignored) + "'");
  }
  return options;
}

}  // namespace kiln
