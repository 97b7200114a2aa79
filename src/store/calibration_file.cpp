#include "store/calibration_file.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr std::size_t kMaxBytes = 1 << 20;
constexpr double kMaxTemperature = 1e6;
constexpr std::uint64_t kMaxImages = std::uint64_t{1} << 40;
constexpr std::array<std::string_view, 3> kKeys{"version", "temperature", "answers"};

std::string shown(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60);
}

[[noreturn]] void fail(const std::string& where, const std::string& fault) {
  throw Error(ErrorCode::kInvalidModelDirectory,
              "'" + where + "' is not a valid calibration file: " + fault +
                  ". Train the model again or copy its complete directory.");
}

const Json& at(const Json& root, const char* key, const std::string& where) {
  const auto found = root.find(key);
  if (found == root.end()) fail(where, std::string("its key '") + key + "' is missing");
  return *found;
}

bool is_count(const Json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= kMaxImages;
}

// Whether `value` is a valid bin that begins above `before`.
bool is_bin(const Json& value, double before) {
  if (!value.is_array() || value.size() != 3 || !value[0].is_number() || !is_count(value[1]) ||
      !is_count(value[2]))
    return false;
  const auto from = value[0].get<double>();
  return from > before && from <= 1 && from >= 0 &&
         value[2].get<std::uint64_t>() <= value[1].get<std::uint64_t>();
}

std::vector<AnswerBin> bins_of(const Json& list, const std::string& where) {
  if (!list.is_array()) fail(where, "its key 'answers' is " + shown(list) + " instead of a list");
  std::vector<AnswerBin> bins;
  for (const Json& value : list) {
    if (!is_bin(value, bins.empty() ? -1 : bins.back().from))
      fail(where, "its key 'answers' has " + shown(value) +
                      " instead of a higher confidence, images, and correct images");
    bins.push_back(
        {value[0].get<double>(), value[1].get<std::int64_t>(), value[2].get<std::int64_t>()});
  }
  return bins;
}

Calibration read(const Json& root, const std::string& where) {
  if (!root.is_object()) fail(where, "it is not a JSON object");
  if (const Json& version = at(root, "version", where); version != kVersion)
    fail(where, "its version is " + shown(version) + ", but this program supports version " +
                    std::to_string(kVersion));
  for (const auto& [key, value] : root.items())
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      fail(where, "its key '" + key.substr(0, 100) + "' is unknown");
  const Json& temperature = at(root, "temperature", where);
  Calibration calibration{temperature.is_number() ? temperature.get<double>() : 0, {}};
  if (!(calibration.temperature > 0 && calibration.temperature <= kMaxTemperature))
    fail(where, "its key 'temperature' is " + shown(temperature) + " instead of a number above 0");
  calibration.answers = bins_of(at(root, "answers", where), where);
  return calibration;
}

}  // namespace

Calibration parse_calibration(std::string_view json, const std::string& where) {
  if (json.size() > kMaxBytes) fail(where, "it is larger than 1 MiB");
  try {
    return read(parse_json(json, RepeatedKeys::kRefused), where);
  } catch (const JsonFault& fault) {
    fail(where, std::string("it ") + fault.what());
  }
}

std::string format_calibration(const Calibration& calibration) {
  nlohmann::ordered_json answers = nlohmann::ordered_json::array();
  for (const AnswerBin& bin : calibration.answers)
    answers.push_back({bin.from, bin.images, bin.right});
  const nlohmann::ordered_json json = {
      {"version", kVersion}, {"temperature", calibration.temperature}, {"answers", answers}};
  return json.dump() + "\n";
}

}  // namespace kiln
