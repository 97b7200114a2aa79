#include "data/transform/image_transform.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

// Returns "224" for 224.0, "0.5" for 0.50.
std::string text_of(double number) {
  if (number == std::trunc(number) && std::abs(number) < 1e15)
    return std::to_string(static_cast<long long>(number));
  std::string text = std::to_string(number);
  return text.substr(0, text.find_last_not_of('0') + 1);
}

std::string text_of(NumberRange range) {
  if (std::isinf(range.high))
    return std::isinf(range.low) ? "" : " from " + text_of(range.low) + " up";
  return " from " + text_of(range.low) + " to " + text_of(range.high);
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

std::string either(std::initializer_list<std::size_t> lengths) {
  std::string text;
  for (const std::size_t length : lengths)
    text += (text.empty() ? "" : " or ") + std::to_string(length);
  return text;
}

}  // namespace

std::string shown(const Json& value) {
  constexpr std::size_t kMaxShown = 60;
  return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, kMaxShown);
}

Arguments::Arguments(const Json& value, const std::vector<Parameter>& parameters, int channels)
    : num_channels(channels) {
  const std::size_t given = value.is_array() ? value.size() : 1;
  if (value.is_object())
    assign_by_name(value, parameters);
  else if (!value.is_array() && !value.is_number())
    faults_.push_back("its arguments are " + shown(value) +
                      " instead of a number, a list or a mapping by name");
  else if (given > parameters.size())
    refuse_too_many(given, parameters.size());
  else
    for (std::size_t i = 0; i < given; ++i)
      assign(parameters[i], value.is_array() ? value[i] : value);
}

void Arguments::refuse_too_many(std::size_t given, std::size_t taken) {
  faults_.push_back("it has " + std::to_string(given) + (given == 1 ? " argument" : " arguments") +
                    ", but takes " + (taken == 0 ? "none" : std::to_string(taken)));
}

void Arguments::assign(const Parameter& parameter, const Json& value) {
  if (has(parameter.name))
    faults_.push_back("it has the argument '" + std::string(parameter.name) + "' twice");
  else if (!value.is_null())
    given_.push_back({parameter.name, &value});
  else if (!parameter.takes_null)
    faults_.push_back("its " + std::string(parameter.name) + " is null");
}

void Arguments::assign_by_name(const Json& mapping, const std::vector<Parameter>& parameters) {
  for (const auto& [name, value] : mapping.items()) {
    const auto found = std::ranges::find(parameters, name, &Parameter::name);
    if (found != parameters.end()) {
      assign(*found, value);
      continue;
    }
    std::vector<std::string> known;
    known.reserve(parameters.size());
    for (const Parameter& parameter : parameters) known.emplace_back(parameter.name);
    const std::string meant = did_you_mean(name, known);
    faults_.push_back("it has no argument '" + name.substr(0, 60) + "'" +
                      (known.empty() ? "" : "; it takes " + joined(known, ", ")) +
                      (meant.empty() ? "" : "." + meant));
  }
}

const Json* Arguments::find(std::string_view name) const {
  for (const GivenArgument& given : given_)
    if (given.name == name) return given.value;
  return nullptr;
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

double Arguments::probability(std::string_view name, double fallback) {
  return number(name, {0, 1}, fallback);
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
  refuse(name, either(lengths) + " numbers" + text_of(allowed));
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

std::vector<double> Arguments::for_channels(std::string_view name, NumberRange allowed) {
  return num_channels == 1 ? numbers(name, allowed, {1}) : numbers(name, allowed, {1, 3});
}

Color Arguments::color(std::string_view name) {
  const std::vector<double> values = for_channels(name, {0, 255});
  Color color{};
  for (std::size_t c = 0; c < 3 && !values.empty(); ++c)
    color[c] = static_cast<std::uint8_t>(values[values.size() == 3 ? c : 0]);
  return color;
}

Interpolation Arguments::interpolation(std::string_view name, Interpolation fallback) {
  return static_cast<Interpolation>(whole(name, 0, 5, static_cast<int>(fallback)));
}

}  // namespace kiln
