#include "data/transform/image_transform.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace kiln {
namespace {

using Kind = ArgumentValue::Kind;

// Returns "224" for 224.0, "0.5" for 0.50.
std::string text_of(double number) {
  if (number == std::trunc(number) && std::abs(number) < 1e15)
    return std::to_string(static_cast<long long>(number));
  std::string text = std::to_string(number);
  return text.substr(0, text.find_last_not_of('0') + 1);
}

std::string text_of(Range range) {
  if (std::isinf(range.high))
    return std::isinf(range.low) ? "" : " from " + text_of(range.low) + " up";
  return " from " + text_of(range.low) + " to " + text_of(range.high);
}

bool is_in(Range range, double number) {
  return number >= range.low && number <= range.high;
}

bool is_whole(const ArgumentValue& value) {
  return value.kind == Kind::kNumber && std::trunc(value.number) == value.number;
}

std::string either(std::initializer_list<std::size_t> lengths) {
  std::string text;
  for (const std::size_t length : lengths)
    text += (text.empty() ? "" : " or ") + std::to_string(length);
  return text;
}

}  // namespace

Arguments::Arguments(const ArgumentValue& value, const std::vector<Parameter>& parameters,
                     int num_channels)
    : num_channels_(num_channels) {
  if (value.kind == Kind::kMapping)
    assign_by_name(value, parameters);
  else if (value.kind == Kind::kList)
    assign_in_order(value.items, parameters);
  else if (value.kind != Kind::kNumber)
    faults_.push_back("its arguments are " + value.shown +
                      " instead of a number, a list or a mapping by name");
  else if (parameters.empty())
    refuse_too_many(1, 0);
  else
    assign(parameters.front(), value);
}

void Arguments::refuse_too_many(std::size_t given, std::size_t taken) {
  faults_.push_back("it has " + std::to_string(given) + (given == 1 ? " argument" : " arguments") +
                    ", but takes " + (taken == 0 ? "none" : std::to_string(taken)));
}

void Arguments::assign(const Parameter& parameter, const ArgumentValue& value) {
  if (has(parameter.name))
    faults_.push_back("it has the argument '" + std::string(parameter.name) + "' twice");
  else if (value.kind != Kind::kNull)
    given_.push_back({parameter.name, &value});
  else if (!parameter.takes_null)
    faults_.push_back("its " + std::string(parameter.name) + " is null");
}

void Arguments::assign_in_order(const std::vector<ArgumentValue>& items,
                                const std::vector<Parameter>& parameters) {
  if (items.size() > parameters.size()) return refuse_too_many(items.size(), parameters.size());
  for (std::size_t i = 0; i < items.size(); ++i) assign(parameters[i], items[i]);
}

void Arguments::assign_by_name(const ArgumentValue& mapping,
                               const std::vector<Parameter>& parameters) {
  for (std::size_t i = 0; i < mapping.names.size(); ++i) {
    const auto found = std::find_if(
        parameters.begin(), parameters.end(),
        [&](const Parameter& parameter) { return parameter.name == mapping.names[i]; });
    if (found != parameters.end()) {
      assign(*found, mapping.items[i]);
      continue;
    }
    std::vector<std::string> known;
    known.reserve(parameters.size());
    for (const Parameter& parameter : parameters) known.emplace_back(parameter.name);
    const std::string meant = did_you_mean(mapping.names[i], known);
    faults_.push_back("it has no argument '" + mapping.names[i].substr(0, 60) + "'" +
                      (known.empty() ? "" : "; it takes " + joined(known, ", ")) +
                      (meant.empty() ? "" : "." + meant));
  }
}

const ArgumentValue* Arguments::find(std::string_view name) const {
  for (const Given& given : given_)
    if (given.name == name) return given.value;
  return nullptr;
}

void Arguments::refuse(std::string_view name, const std::string& due) {
  const ArgumentValue* value = find(name);
  faults_.push_back("its " + std::string(name) + " is " + (value ? value->shown : "missing") +
                    " instead of " + due);
}

void Arguments::require(std::string_view name) {
  if (!has(name) && faults_.empty())
    faults_.push_back("its argument '" + std::string(name) + "' is missing");
}

bool Arguments::is_one(std::string_view name) const {
  const ArgumentValue* value = find(name);
  return value != nullptr && (value->kind == Kind::kNumber || value->items.size() == 1);
}

bool Arguments::is_text(std::string_view name) const {
  const ArgumentValue* value = find(name);
  return value != nullptr && value->kind == Kind::kText;
}

int Arguments::whole(std::string_view name, int low, int high, int fallback) {
  const ArgumentValue* value = find(name);
  if (value == nullptr) return fallback;
  const Range allowed{static_cast<double>(low), static_cast<double>(high)};
  if (is_whole(*value) && is_in(allowed, value->number)) return static_cast<int>(value->number);
  refuse(name, "a whole number" + text_of(allowed));
  return fallback;
}

double Arguments::number(std::string_view name, Range allowed, double fallback) {
  const ArgumentValue* value = find(name);
  if (value == nullptr) return fallback;
  if (value->kind == Kind::kNumber && is_in(allowed, value->number)) return value->number;
  refuse(name, "a number" + text_of(allowed));
  return fallback;
}

double Arguments::probability(std::string_view name, double fallback) {
  return number(name, {0, 1}, fallback);
}

bool Arguments::truth(std::string_view name, bool fallback) {
  const ArgumentValue* value = find(name);
  if (value == nullptr) return fallback;
  if (value->kind == Kind::kTruth) return value->truth;
  refuse(name, "true or false");
  return fallback;
}

std::string Arguments::word(std::string_view name, const std::vector<std::string>& choices) {
  const ArgumentValue* value = find(name);
  if (value == nullptr) return "";
  if (value->kind == Kind::kText &&
      std::find(choices.begin(), choices.end(), value->text) != choices.end())
    return value->text;
  refuse(name, "one of " + joined(choices, ", "));
  return "";
}

std::vector<double> Arguments::numbers(std::string_view name, Range allowed,
                                       std::initializer_list<std::size_t> lengths) {
  const ArgumentValue* value = find(name);
  if (value == nullptr) return {};
  std::vector<double> found;
  bool right = value->kind == Kind::kNumber || value->kind == Kind::kList;
  const auto take = [&](const ArgumentValue& item) {
    right = right && item.kind == Kind::kNumber && is_in(allowed, item.number);
    found.push_back(item.number);
  };
  if (value->kind == Kind::kNumber) take(*value);
  for (const ArgumentValue& item : value->items) take(item);
  if (right && std::find(lengths.begin(), lengths.end(), found.size()) != lengths.end())
    return found;
  refuse(name, either(lengths) + " numbers" + text_of(allowed));
  return {};
}

Range Arguments::range(std::string_view name, Range allowed, Range fallback) {
  if (!has(name)) return fallback;
  const std::size_t before = faults_.size();
  const std::vector<double> ends = numbers(name, allowed, {2});
  if (ends.size() == 2 && ends[0] <= ends[1]) return {ends[0], ends[1]};
  if (faults_.size() == before) refuse(name, "a range with the lower end first");
  return fallback;
}

std::vector<Range> Arguments::angles(std::string_view name,
                                     std::initializer_list<std::size_t> lengths) {
  constexpr Range kAny{-1e6, 1e6};
  const ArgumentValue* value = find(name);
  if (value == nullptr) return {};
  if (value->kind == Kind::kNumber) {
    const double most = number(name, {0, kAny.high}, 0);
    return {{-most, most}};
  }
  const std::vector<double> ends = numbers(name, kAny, lengths);
  std::vector<Range> ranges;
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
  const ArgumentValue* value = find(name);
  if (value == nullptr) return {1, 1};
  const std::string due = "whole pixels from 1 to " + std::to_string(kMaxSide) +
                          ", one side or height and width, and not more than " +
                          std::to_string(kMaxImagePixels) + " together";
  std::vector<double> sides;
  if (is_whole(*value)) sides = {value->number};
  for (const ArgumentValue& item : value->items) sides.push_back(is_whole(item) ? item.number : 0);
  const bool right = (sides.size() == 1 || sides.size() == 2) &&
                     is_in({1, kMaxSide}, sides.front()) && is_in({1, kMaxSide}, sides.back());
  if (right) {
    const ImageSize size{static_cast<int>(sides.front()), static_cast<int>(sides.back())};
    if (is_plausible(size)) return size;
  }
  refuse(name, due);
  return {1, 1};
}

Color Arguments::color(std::string_view name) {
  constexpr Range kBytes{0, 255};
  const std::vector<double> values =
      num_channels_ == 1 ? numbers(name, kBytes, {1}) : numbers(name, kBytes, {1, 3});
  Color color{};
  for (std::size_t c = 0; c < 3 && !values.empty(); ++c)
    color[c] = static_cast<std::uint8_t>(values[values.size() == 3 ? c : 0]);
  return color;
}

Interpolation Arguments::interpolation(std::string_view name, Interpolation fallback) {
  return static_cast<Interpolation>(whole(name, 0, 5, static_cast<int>(fallback)));
}

}  // namespace kiln
