#include "config/option_kinds.h"

#include <iterator>
#include <utility>

namespace kiln {

Option required_path(std::string name, std::string value_name, std::string help) {
  return {.name = std::move(name),
          .value_name = std::move(value_name),
          .default_text = "",
          .unit = "",
          .group = kPaths,
          .help = std::move(help),
          .kind = ValueKind::kPath,
          .required = true};
}

Option positional_path(std::string name, std::string value_name, std::string help) {
  Option path = required_path(std::move(name), std::move(value_name), std::move(help));
  path.positional = true;
  return path;
}

Option optional_path(std::string name, std::string value_name, std::string default_text,
                     std::string group, std::string help) {
  return {.name = std::move(name),
          .value_name = std::move(value_name),
          .default_text = std::move(default_text),
          .unit = "",
          .group = std::move(group),
          .help = std::move(help),
          .kind = ValueKind::kPath};
}

Option integer(std::string name, std::string default_text, std::int64_t minimum,
               std::int64_t maximum, std::string unit, std::string group, std::string help) {
  const bool automatic = default_text == "auto";
  return {.name = std::move(name),
          .value_name = automatic ? "auto|N" : "N",
          .default_text = std::move(default_text),
          .unit = std::move(unit),
          .group = std::move(group),
          .help = std::move(help),
          .kind = automatic ? ValueKind::kAutoOrInteger : ValueKind::kInteger,
          .minimum = minimum,
          .maximum = maximum};
}

Option ranks(bool required, std::string group, std::string help) {
  return {.name = "ranks",
          .value_name = "N|auto",
          .default_text = "",
          .unit = "processes",
          .group = std::move(group),
          .help = std::move(help),
          .kind = ValueKind::kAutoOrInteger,
          .required = required,
          .minimum = 1,
          .maximum = 4096};
}

Option choice(std::string name, std::vector<std::string> choices, std::string group,
              std::string help) {
  const std::string first = choices.front();
  std::string value_name = first;
  for (std::size_t i = 1; i < choices.size(); ++i) value_name += "|" + choices[i];
  return {.name = std::move(name),
          .value_name = std::move(value_name),
          .default_text = first,
          .unit = "",
          .group = std::move(group),
          .help = std::move(help),
          .kind = ValueKind::kChoice,
          .choices = std::move(choices)};
}

Option seed(std::string group, std::string help) {
  return integer("random-seed", "1", kLowest, kHighest, "", std::move(group), std::move(help));
}

Option yes_or_no(std::string name, ValueKind kind, std::string default_text, std::string group,
                 std::string help) {
  std::string value_name;
  if (kind == ValueKind::kBoolean) value_name = "True|False";
  if (kind == ValueKind::kSwitch) value_name = "[True|False]";
  return {.name = std::move(name),
          .value_name = std::move(value_name),
          .default_text = std::move(default_text),
          .unit = "",
          .group = std::move(group),
          .help = std::move(help),
          .kind = kind};
}

Option plain() {
  return yes_or_no("plain", ValueKind::kSwitch, "False", kReporting,
                   "No live line on a terminal, plain lines as in a file. So does the variable "
                   "NO_COLOR.");
}

void append(std::vector<Option>& options, std::vector<Option> more) {
  std::move(more.begin(), more.end(), std::back_inserter(options));
}

}  // namespace kiln
