#include "report/scores/score_progress.h"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"

namespace kiln {
namespace {

using Json = nlohmann::json;
using Settings = std::map<std::string, std::string>;

constexpr int kVersion = 2;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 53;

struct Count {
  const char* name;
  std::int64_t ScoreProgress::*member;
};
constexpr std::array<Count, 8> kCounts{
    {{"images", &ScoreProgress::num_images},
     {"labeled", &ScoreProgress::num_labeled},
     {"right", &ScoreProgress::num_right},
     {"unsure", &ScoreProgress::num_unsure},
     {"seen_in_training", &ScoreProgress::num_seen_in_training},
     {"seen_in_validation", &ScoreProgress::num_seen_in_validation},
     {"bad", &ScoreProgress::num_bad},
     {"damaged", &ScoreProgress::num_damaged}}};
constexpr std::size_t kNumKeys = kCounts.size() + 7;

[[noreturn]] void fail(const std::string& clause) {
  throw JsonFault(1, clause);
}

const Json& at(const Json& root, const char* key) {
  const auto found = root.find(key);
  if (found == root.end()) fail(std::string("has no '") + key + "'");
  return *found;
}

const std::string& text_of(const Json& value, const std::string& key) {
  if (!value.is_string()) fail("has " + json_kind(value) + " as '" + key.substr(0, 100) + "'");
  return value.get_ref<const std::string&>();
}

std::int64_t count_of(const Json& root, const char* key) {
  const Json& value = at(root, key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{kMaxCount})
    fail(std::string("has no count as '") + key + "'");
  return value.get<std::int64_t>();
}

// Parses a hash that hex_digits() wrote; fails for any other text.
std::uint64_t hash_of(const Json& root, const char* key) {
  const std::string& digits = text_of(at(root, key), key);
  std::uint64_t hash = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  if (hex_digits(hash) != digits) fail(std::string("has no hash as '") + key + "'");
  return hash;
}

Settings settings_of(const Json& root, const char* key) {
  const Json& object = at(root, key);
  if (!object.is_object()) fail(std::string("has no object as '") + key + "'");
  Settings settings;
  for (const auto& [name, value] : object.items()) settings.emplace(name, text_of(value, name));
  return settings;
}

void require(bool holds) {
  if (!holds) fail("has counts that contradict each other");
}

}  // namespace

std::string format_score_progress(const ScoreProgress& progress) {
  nlohmann::ordered_json root;
  root["version"] = kVersion;
  root["rows"] = progress.settings.rows;
  root["bits"] = progress.settings.bits;
  for (const Count& count : kCounts) root[count.name] = progress.*count.member;
  root["first_bad"] = progress.first_bad;
  root["names"] = hex_digits(progress.names);
  root["bytes"] = progress.bytes;
  root["hash"] = hex_digits(progress.hash);
  return root.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

ScoreProgress parse_score_progress(std::string_view json) {
  if (json.size() > kMaxProgressBytes) fail("is larger than 1 MiB");
  const Json root = parse_json(json, RepeatedKeys::kRefused);
  if (!root.is_object()) fail("is " + json_kind(root) + " instead of an object");
  if (at(root, "version") != kVersion) fail("is from a different version of kiln");
  if (root.size() != kNumKeys) fail("has unknown keys");
  ScoreProgress progress;
  progress.settings = {settings_of(root, "rows"), settings_of(root, "bits")};
  for (const Count& count : kCounts) progress.*count.member = count_of(root, count.name);
  progress.first_bad = text_of(at(root, "first_bad"), "first_bad");
  progress.names = hash_of(root, "names");
  progress.bytes = static_cast<std::uint64_t>(count_of(root, "bytes"));
  progress.hash = hash_of(root, "hash");
  const std::int64_t num_answered = progress.num_images - progress.num_bad;
  require(num_answered >= 0 && progress.num_labeled <= num_answered &&
          progress.num_right <= progress.num_labeled && progress.num_unsure <= num_answered &&
          progress.num_damaged <= progress.num_images &&
          progress.num_seen_in_training <= progress.num_images &&
          progress.num_seen_in_validation <= progress.num_images);
  return progress;
}

std::vector<std::string> differences(const Settings& before, const Settings& now) {
  Settings all = before;
  all.insert(now.begin(), now.end());
  const auto value_in = [](const Settings& settings, const std::string& name) {
    const auto found = settings.find(name);
    return found == settings.end() || found->second.empty() ? "not given" : found->second;
  };
  std::vector<std::string> texts;
  for (const auto& [name, value] : all) {
    const std::string was = value_in(before, name), is = value_in(now, name);
    if (was != is) texts.push_back(name + " was " + excerpt(was) + " and is now " + excerpt(is));
  }
  return texts;
}

}  // namespace kiln
