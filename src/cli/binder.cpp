#include "cli/binder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/url.h"

namespace kiln {
namespace {

std::filesystem::path resolved(const std::string& path) {
  std::error_code failure;
  std::filesystem::path absolute = std::filesystem::absolute(path, failure);
  std::filesystem::path canonical = std::filesystem::weakly_canonical(absolute, failure);
  if (failure) canonical = absolute.lexically_normal();
  // "a/b/" and "a/b" are one folder.
  return canonical.has_filename() ? canonical : canonical.parent_path();
}

bool is_same_or_inside(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  const auto [end, rest] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

}  // namespace

Binder::Binder(const CommandInfo& command, RawArguments& raw) : command_(command), raw_(raw) {
  for (const Option& option : command.options) report_if_missing(option);
}

bool Binder::is_set(const char* name, const std::string& text) const {
  const RawValue* value = raw_.find(name);
  if (value == nullptr) return false;
  const Option& option = *value->option;
  const std::string& other = text.empty() ? option.default_text : text;
  return is_same_setting(option, value->text, other) != text.empty();
}

void Binder::imply(const char* name, const std::string& text, const char* by) {
  if (given(name)) return;
  const RawValue& reason = *raw_.find(by);
  raw_.values.push_back({find_option(command_, name), text,
                         std::string("--") + name + " (of --" + by + " " + reason.text + ")",
                         reason.position});
}

void Binder::fault(const char* name, ErrorCode code, const std::string& message) {
  raw_.faults.add(position(name), Error(code, message));
}

OptionTexts Binder::effective_options() const {
  OptionTexts options;
  for (const Option& option : command_.options) {
    const RawValue* value = raw_.find(option.name);
    options.emplace_back(option.name,
                         value == nullptr ? option.default_text : without_secrets(value->text));
  }
  return options;
}

int Binder::position(const char* name) const {
  const RawValue* value = raw_.find(name);
  return value == nullptr ? kMissingPosition : value->position;
}

void Binder::report_if_missing(const Option& option) {
  const auto is_mentioned = [&](const Option* other) {
    return std::find(raw_.mentioned.begin(), raw_.mentioned.end(), other) != raw_.mentioned.end();
  };
  const Option* instead = option.instead.empty() ? nullptr : find_option(command_, option.instead);
  if (instead != nullptr && given(option.name.c_str()) && given(instead->name.c_str()))
    fault(instead->name.c_str(), ErrorCode::kParameterParsing,
          "--" + option.name + " and --" + instead->name +
              " are both given, but mean the same thing: use only one of them.");
  if (!option.required || is_mentioned(&option) || (instead != nullptr && is_mentioned(instead)))
    return;
  std::string purpose = option.help.substr(0, option.help.find(". "));  // the first sentence
  if (purpose.ends_with('.')) purpose.pop_back();
  raw_.faults.add(
      kMissingPosition,
      Error(ErrorCode::kParameterParsing,
            "--" + option.name + " " + option.value_name + " is missing (" + purpose + "): add it" +
                (instead == nullptr ? "" : ", or --" + instead->name) + "."));
}

bool lies_inside(const std::string& inner, const std::string& outer) {
  return !inner.empty() && !outer.empty() && is_same_or_inside(resolved(inner), resolved(outer));
}

std::string overlap_of(const char* output_name, const std::string& output, const char* input_name,
                       const std::string& input) {
  if (output.empty() || input.empty()) return {};
  const std::filesystem::path out = resolved(output);
  const std::filesystem::path in = resolved(input);
  std::string relation;
  if (out == in) {
    relation = "is the same folder as";
  } else if (is_same_or_inside(out, in)) {
    relation = "is inside";
  } else if (is_same_or_inside(in, out)) {
    relation = "contains";
  } else {
    return {};
  }
  return std::string("--") + output_name + " '" + output + "' " + relation + " --" + input_name +
         " '" + input + "': choose a separate folder for the output.";
}

void require_apart(Binder& binder, const char* output_name, const std::string& output,
                   const char* input_name, const std::string& input) {
  const std::string overlap = overlap_of(output_name, output, input_name, input);
  if (!overlap.empty()) binder.fault(output_name, ErrorCode::kParameterParsing, overlap);
}

}  // namespace kiln
