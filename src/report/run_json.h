// Values of a run's records as JSON and back, each pair side by side.
//
// from_json() leaves what it does not find as it was, and throws nlohmann::json::exception or
// std::invalid_argument for what does not fit.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/base64.h"
#include "report/json_text.h"
#include "report/run_fields.h"

namespace kiln {

inline constexpr std::array kStatusNames = {"running", "finished", "stopped", "failed"};
inline constexpr int kMostClasses = 100'000;

template <typename T>
requires std::integral<T> || std::same_as<T, std::string> Json as_json(const T& value) {
  return value;
}
template <typename T>
requires std::same_as<T, bool> || std::same_as<T, std::string>
void from_json(const Json& json, T& value) {
  json.get_to(value);
}
// All of a record's are counts, or begin at 0; the limit leaves room to reckon with them.
template <std::integral T>
requires(!std::same_as<T, bool>) void from_json(const Json& json, T& value) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<T>::max() / 4);
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > kMost)
    throw std::invalid_argument(json_text(json).substr(0, 30) + " is no count");
  json.get_to(value);
}

inline Json as_json(RunStatus status) {
  return kStatusNames.at(static_cast<std::size_t>(status));
}
inline void from_json(const Json& json, RunStatus& status) {
  const auto text = json.get<std::string>();
  for (std::size_t i = 0; i < kStatusNames.size(); ++i)
    if (text == kStatusNames.at(i)) status = static_cast<RunStatus>(i);
}

inline Json as_json(const Thumbnail& thumbnail) {
  return {
      {"height", thumbnail.height}, {"width", thumbnail.width}, {"jpeg", base64(thumbnail.jpeg)}};
}
inline void from_json(const Json& json, Thumbnail& thumbnail) {
  from_json(json.at("height"), thumbnail.height);
  from_json(json.at("width"), thumbnail.width);
  thumbnail.jpeg = from_base64(json.at("jpeg").get<std::string>());
}

// Only what is not 0, as [truth, guess, count].
inline Json as_json(const ConfusionMatrix& matrix) {
  Json cells = Json::array();
  for (int truth = 0; !matrix.empty() && truth < matrix.num_classes; ++truth)
    for (int guess = 0; guess < matrix.num_classes; ++guess)
      if (matrix.at(truth, guess) > 0) cells.push_back({truth, guess, matrix.at(truth, guess)});
  return {{"num_classes", matrix.num_classes}, {"cells", std::move(cells)}};
}
inline void from_json(const Json& json, ConfusionMatrix& matrix) {
  from_json(json.at("num_classes"), matrix.num_classes);
  const auto size = static_cast<std::size_t>(matrix.num_classes);
  // Its square is the memory taken, whatever a broken file says.
  if (size > kMostClasses || (size > 2000 && size > json.at("cells").size()))
    throw std::invalid_argument("a confusion matrix of too many classes");
  matrix.counts.assign(size * size, 0);
  for (const Json& cell : json.at("cells")) {
    std::size_t truth = 0, guess = 0;
    from_json(cell.at(0), truth);
    from_json(cell.at(1), guess);
    if (truth >= size || guess >= size) throw std::invalid_argument("a class that is not there");
    from_json(cell.at(2), matrix.counts[truth * size + guess]);
  }
}

template <HasFields Record>
Json as_json(const Record& record);
template <HasFields Record>
void from_json(const Json& json, Record& record);

inline Json as_json(const double (&values)[3]) {
  return {as_json(values[0]), as_json(values[1]), as_json(values[2])};
}
inline void from_json(const Json& json, double (&values)[3]) {
  for (std::size_t i = 0; i < 3; ++i) from_json(json.at(i), values[i]);
}

template <typename T>
Json as_json(const std::optional<T>& value) {
  return value ? as_json(*value) : Json();
}
template <typename T>
void from_json(const Json& json, std::optional<T>& value) {
  if (!json.is_null()) from_json(json, value.emplace());
}

template <typename T>
Json as_json(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(as_json(value));
  return list;
}
template <typename T>
void from_json(const Json& json, std::vector<T>& values) {
  values.clear();
  for (const Json& value : json) from_json(value, values.emplace_back());
}

template <HasFields Record>
Json as_json(const Record& record) {
  Json object = Json::object();
  visit_fields(record,
               [&](const char* name, const auto& member) { object[name] = as_json(member); });
  return object;
}
template <HasFields Record>
void from_json(const Json& json, Record& record) {
  if (!json.is_object()) throw std::invalid_argument("no object where one belongs");
  visit_fields(record, [&](const char* name, auto& member) {
    const auto found = json.find(name);
    if (found != json.end()) from_json(*found, member);
  });
}

}  // namespace kiln
