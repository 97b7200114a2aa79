// How far a file of answers has come, beside the file while it is incomplete: what a killed job
// leaves for the next one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// What rows depend on: names for people, such as --top-k, and values. UTF-8.
struct ScoreSettings {
  std::map<std::string, std::string> rows;  // with another value a row is another one
  std::map<std::string, std::string> bits;  // with another value its last bits may differ
  bool operator==(const ScoreSettings&) const = default;
};

struct ScoreProgress {
  ScoreSettings settings = {};
  std::int64_t num_images = 0;   // that have a row
  std::uint64_t names = 0;       // hash of their names and true labels
  std::int64_t num_labeled = 0;  // those with an answer and a label that the model knows
  std::int64_t num_right = 0;    // of these
  std::int64_t num_unsure = 0;   // without an answer, since the model is not sure
  std::int64_t num_bad = 0, num_damaged = 0;
  std::string first_bad = {};  // bad ones with their faults, for a message; UTF-8
  std::uint64_t bytes = 0;     // of the file, up to the end of these rows
  std::uint64_t hash = 0;      // of these bytes
  bool operator==(const ScoreProgress&) const = default;
};

// Far more than a progress takes.
constexpr std::size_t kMaxProgressBytes = 1 << 20;

// A JSON object, ASCII.
std::string format_score_progress(const ScoreProgress& progress);

// Throws JsonFault for a text that format_score_progress() does not write.
ScoreProgress parse_score_progress(std::string_view json);

// "--top-k was 1 and is now 3", one for each that differs.
std::vector<std::string> differences(const std::map<std::string, std::string>& before,
                                     const std::map<std::string, std::string>& now);

}  // namespace kiln
