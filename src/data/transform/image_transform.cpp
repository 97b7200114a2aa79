#include "data/transform/image_transform.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(double number) {
  return shortest_text(number, std::chars_format::fixed);
}

std::string text_of(NumberRange range) {
  if (std::isinf(range.low) && std::isinf(range.high)) return "";
  return " from " + text_of(range.low) +
         (std::isinf(range.high) ? " up" : " to " + text_of(range.high));
}

bool is_in(NumberRange range, double number) {
  return number >= range.low && number <= range.high;
}

bool is_number_in(NumberRange range, const Json& value) {
  return value.is_number() && is_in(range, value.get<double>());
}

bool is_whole(const Json& value) {
  return value.is_number() && std::trunc(value.get<double>()) == value.get<double>();
}

}  // namespace

std::string shown(const Json& value) {
  constexpr std::size_t kMaxShown = 60;
  return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, kMaxShown);
}

Arguments::Arguments(const Json& value, const std::vector<Parameter>& parameters, int channels)
    : num_channels(channels) {
  const std::size_t given = value.is_array() ? value.size() : 1;
  if (value.is_object()) {
    const auto known =
        list_from(parameters, [](auto& parameter) { return std::string(parameter.name); });
    for (const auto& [name, item] : value.items()) {
      const auto found = std::ranges::find(known, name);
      if (found != known.end()) {
        assign(parameters[static_cast<std::size_t>(found - known.begin())], item);
        continue;
      }
      const std::string meant = did_you_mean(name, known);
      faults_.push_back("it has no argument '" + name.substr(0, 60) + "'" +
                        (known.empty() ? "" : "; it takes " + joined(known, ", ")) +
                        (meant.empty() ? "" : "." + meant));
    }
  } else if (!value.is_array() && !value.is_number()) {
    faults_.push_back("its arguments are " + shown(value) +
                      " instead of a number, a list or a mapping by name");
  } else if (given > parameters.size()) {
    faults_.push_back("it has " + std::to_string(given) +
                      (given == 1 ? " argument" : " arguments") + ", but takes " +
                      (parameters.empty() ? "none" : std::to_string(parameters.size())));
  } else {
    for (std::size_t i = 0; i < given; ++i)
      assign(parameters[i], value.is_array() ? value[i] : value);
  }
}

void Arguments::assign(const Parameter& parameter, const Json& value) {
  if (has(parameter.name))
    faults_.push_back("it has the argument '" + std::string(parameter.name) + "' twice");
  else if (!value.is_null())
    given_.emplace(parameter.name, &value);
  else if (!parameter.takes_null)
    faults_.push_back("its " + std::string(parameter.name) + " is null");
}

const Json* Arguments::find(std::string_view name) const {
  const auto found = given_.find(name);
  return found == given_.end() ? nullptr : found->second;
}

void Arguments::refuse(std::string_view name, const std::string& due) {
  const Json* value = find(name);
  faults_.push_back("its " + std::string(name) + " is " + (value ? shown(*value) : "missing") +
                    " instead of " + due);
}

void Arguments::require(std::string_view name) {
  if (!has(name) && faults_.empty())
    faults_.push_back("its argument '" + std::string(name) + "' is missing");
}

bool Arguments::is_one(std::string_view name) const {
  const Json* value = find(name);
  return value != nullptr && (value->is_number() || (value->is_structured() && value->size() == 1));
}

bool Arguments::is_text(std::string_view name) const {
  const Json* value = find(name);
  return value != nullptr && value->is_string();
}

int Arguments::whole(std::string_view name, int low, int high, int fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  const NumberRange allowed{static_cast<double>(low), static_cast<double>(high)};
  if (is_whole(*value) && is_number_in(allowed, *value)) return value->get<int>();
  refuse(name, "a whole number" + text_of(allowed));
  return fallback;
}

double Arguments::number(std::string_view name, NumberRange allowed, double fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (is_number_in(allowed, *value)) return value->get<double>();
  refuse(name, "a number" + text_of(allowed));
  return fallback;
}

bool Arguments::truth(std::string_view name, bool fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  refuse(name, "true or false");
  return fallback;
}

std::string Arguments::word(std::string_view name, const std::vector<std::string>& choices) {
  const Json* value = find(name);
  if (value == nullptr) return "";
  std::string text = value->is_string() ? value->get<std::string>() : "";
  if (std::ranges::count(choices, text) > 0) return text;
  refuse(name, "one of " + joined(choices, ", "));
  return "";
}

std::vector<double> Arguments::numbers(std::string_view name, NumberRange allowed,
                                       std::initializer_list<std::size_t> lengths) {
  const Json* value = find(name);
  if (value == nullptr) return {};
  std::vector<double> found;
  bool right = value->is_number() || value->is_array();
  for (const Json& item : *value) {  // a number is its own item
    right = right && is_number_in(allowed, item);
    if (right) found.push_back(item.get<double>());
  }
  if (right && std::ranges::find(lengths, found.size()) != lengths.end()) return found;
  const auto number_text = [](std::size_t length) { return std::to_string(length); };
  refuse(name, joined(list_from(lengths, number_text), " or ") + " numbers" + text_of(allowed));
  return {};
}

NumberRange Arguments::range(std::string_view name, NumberRange allowed, NumberRange fallback) {
  if (!has(name)) return fallback;
  const std::size_t before = faults_.size();
  const std::vector<double> ends = numbers(name, allowed, {2});
  if (ends.size() == 2 && ends[0] <= ends[1]) return {ends[0], ends[1]};
  if (faults_.size() == before) refuse(name, "a range with the lower end first");
  return fallback;
}

std::vector<NumberRange> Arguments::angles(std::string_view name,
                                           std::initializer_list<std::size_t> lengths) {
  constexpr NumberRange kAny{-1e6, 1e6};
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_number()) {
    const double most = number(name, {0, kAny.high}, 0);
    return {{-most, most}};
  }
  const std::vector<double> ends = numbers(name, kAny, lengths);
  std::vector<NumberRange> ranges;
  for (std::size_t i = 0; i + 1 < ends.size(); i += 2) {
    if (ends[i] > ends[i + 1]) {
      refuse(name, "a range with the lower end first");
      break;
    }
    ranges.push_back({ends[i], ends[i + 1]});
  }
  return ranges;
}

ImageSize Arguments::size(std::string_view name) {
  require(name);
  const Json* value = find(name);
  if (value == nullptr) return {1, 1};
  const std::string due = "whole pixels from 1 to " + std::to_string(kMaxSide) +
                          ", one side or height and width, and not more than " +
                          std::to_string(kMaxImagePixels) + " together";
  std::vector<double> sides;
  for (const Json& item : *value)  // a number is its own item
    sides.push_back(is_whole(item) ? item.get<double>() : 0);
  const bool right = (sides.size() == 1 || sides.size() == 2) &&
                     is_in({1, kMaxSide}, sides.front()) && is_in({1, kMaxSide}, sides.back());
  if (right) {
    const ImageSize size{static_cast<int>(sides.front()), static_cast<int>(sides.back())};
    if (is_plausible(size)) return size;
  }
  refuse(name, due);
  return {1, 1};
}

std::array<double, 3> Arguments::for_channels(std::string_view name, NumberRange allowed,
                                              double fallback) {
  const std::vector<double> given =
      num_channels == 1 ? numbers(name, allowed, {1}) : numbers(name, allowed, {1, 3});
  if (given.size() == 3) return {given[0], given[1], given[2]};
  const double same = given.empty() ? fallback : given[0];
  return {same, same, same};
}

Color Arguments::color(std::string_view name) {
  const std::array<double, 3> levels = for_channels(name, {0, 255}, 0);
  Color color{};
  for (std::size_t c = 0; c < 3; ++c) color[c] = static_cast<std::uint8_t>(levels[c]);
  return color;
}

Interpolation Arguments::interpolation(std::string_view name, Interpolation fallback) {
  return static_cast<Interpolation>(whole(name, 0, 5, static_cast<int>(fallback)));
}

}  // namespace kiln
