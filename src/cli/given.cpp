#include "cli/given.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/text.h"
#include "base/url.h"
#include "cli/paths.h"

namespace kiln {

std::string GivenValue::where() const {
  const bool has_place = origin == Origin::kFile || origin == Origin::kRecipe;
  return "--" + name() + (has_place ? " (" + reason + ")" : "");
}

void Given::add(const GivenValue& value) try {
  const std::string& text = value.text;
  if (const RemovedWord* removed = find_removed(command.name, value.name(), text))
    return fault(value.position, value.where() + " " + excerpt(text) + " " + removed->fate() + ".");
  values.push_back(value);
  std::string& place = values.back().text;
  if (value.option->kind == ValueKind::kPath) {
    place = place_of(*value.option, text);
  } else if (value.option->is_read) {
    place.clear();
    for (const auto& [prefix, folder] : parse_pairs(text))
      place += (place.empty() ? "" : ",") + (prefix.empty() ? "" : prefix + "=") +
               (is_bucket(folder) ? place_of(*value.option, folder) : folder);
  }
} catch (const std::invalid_argument& why) {
  values.pop_back();
  fault(value.position, value.where() + " " + why.what() + ".");
}

std::string Given::place_of(const Option& option, const std::string& path) {
  if (const auto copy = copies.find(path); copy != copies.end() && option.is_read)
    return copy->second;
  if (!is_bucket(path)) return local_path(path, option.name == options::kWeights);
  const std::string fault = option.is_read ? fault_of_bucket(path)
                                           : "outputs stay on this machine: give a folder here, "
                                             "and upload it with `" +
                                                 upload_line(path) + "`";
  if (!fault.empty())
    throw std::invalid_argument("'" + without_secrets(path) + "' cannot be used: " + fault);
  buckets.push_back(path);
  return path;
}

const GivenValue* Given::find(std::string_view name) const {
  const auto found = std::ranges::find(values, name, &GivenValue::name);
  return found == values.end() ? nullptr : &*found;
}

GivenValue* Given::find(std::string_view name) {
  return const_cast<GivenValue*>(std::as_const(*this).find(name));
}

bool Given::mentions(std::string_view name) const {
  return std::ranges::any_of(mentioned, [&](const Option* option) { return option->name == name; });
}

void Given::mention_all() {
  for (const Option& option : command.options) mentioned.push_back(&option);
}

bool Given::is_set(const char* name, const std::string& text) const {
  const GivenValue* value = find(name);
  if (value == nullptr) return false;
  const Setting& setting = *value;
  return text.empty() ? !setting.is_default()
                      : is_same_setting(*setting.option, setting.text, text);
}

void Given::imply(std::string_view name, const std::string& text, const char* by, Origin origin) {
  if (has(name)) return;
  const Option* option = find_option(command, name);
  mentioned.push_back(option);
  if (const GivenValue* reason = find(by))
    values.push_back(
        {{option, text, Origin::kRecipe, std::string("of --") + by + " " + reason->text},
         reason->position});
  else
    values.push_back({{option, text, origin}, kMissingPosition});
}

int Given::position(std::string_view name) const {
  const GivenValue* value = find(name);
  return value == nullptr ? kMissingPosition : value->position;
}

void Given::fault(int position, const std::string& message, ErrorCode code) {
  faults.emplace_back(position, Error(code, message));
}

void Given::fault(const char* name, const std::string& message, ErrorCode code) {
  fault(position(name), message, code);
}

void Given::keep_apart(const char* output, const std::vector<const char*>& inputs) {
  const GivenValue* path = find(output);
  for (const char* input : inputs)
    if (path != nullptr)
      read(input, [&](const std::string& text, const std::string&) {
        const std::string overlap = overlap_of(output, path->text, input, text);
        if (!overlap.empty()) fault(output, overlap);
      });
}

void Given::report_missing() {
  for (const Option& option : command.options) {
    const Option* instead = option.instead.empty() ? nullptr : find_option(command, option.instead);
    if (instead != nullptr && has(option.name) && has(instead->name))
      fault(position(instead->name),
            "--" + option.name + " and --" + instead->name +
                " are both given, but mean the same thing: use only one of them.");
    if (!option.required || mentions(option.name) || mentions(option.instead)) continue;
    fault(kMissingPosition, "--" + option.name + " " + option.value_name + " is missing (" +
                                first_sentence(option.help) + "): add it" +
                                (instead == nullptr ? "" : ", or --" + instead->name) + ".");
  }
}

Settings Given::settings() const {
  Settings settings(command);
  for (auto value = values.rbegin(); value != values.rend(); ++value) {  // the first of several
    Setting shown = *value;
    shown.text = without_secrets(shown.text);
    for (const auto& [url, path] : copies)  // also of a folder in it; it has no secrets
      if (const std::size_t at = shown.text.find(path);
          shown.option->is_read && at != shown.text.npos)
        shown.text.replace(at, path.size(), url);
    const Option& option = *shown.option;  // one that is treated as given in any case says no more
    if (option.is_implied && shown.text == option.default_text) shown.origin = Origin::kDefault;
    settings = settings.replaced(std::move(shown));
  }
  return settings;
}

Problems Given::problems() const {
  std::vector<std::pair<int, Error>> sorted = faults;
  std::ranges::stable_sort(sorted, {}, [](const auto& fault) { return fault.first; });
  Problems problems;
  for (auto& [position, error] : sorted) problems.add(std::move(error));
  return merged({problems});
}

Problems merged(const std::vector<Problems>& parts) {
  std::vector<Error> errors;
  for (const Problems& part : parts)
    for (const Error& error : part.errors())
      if (std::ranges::find(errors, error.message(), &Error::message) == errors.end())
        errors.push_back(error);
  std::stable_partition(errors.begin(), errors.end(),
                        [](const Error& error) { return exit_code(error.code()) == 2; });
  Problems problems;
  for (Error& error : errors) problems.add(std::move(error));
  return problems;
}

}  // namespace kiln
