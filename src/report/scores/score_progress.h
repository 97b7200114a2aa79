// The progress of an incomplete file of answers, stored beside it: what a killed job leaves for the
// next one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// The settings that rows depend on: readable names, such as --top-k, and values. UTF-8.
struct ScoreSettings {
  std::map<std::string, std::string> rows;  // a different value changes the rows
  std::map<std::string, std::string> bits;  // a different value may change the last bits of numbers
  bool operator==(const ScoreSettings&) const = default;
};

struct ScoreProgress {
  ScoreSettings settings = {};
  std::int64_t num_images = 0;   // images that have a row
  std::uint64_t names = 0;       // hash of their names and true labels
  std::int64_t num_labeled = 0;  // rows with an answer and a label that the model knows
  std::int64_t num_right = 0;    // of these rows
  std::int64_t num_unsure = 0;   // without an answer, since the model is not confident
  // Images that the model was trained on, or selected by.
  std::int64_t num_seen_in_training = 0, num_seen_in_validation = 0;
  std::int64_t num_bad = 0, num_damaged = 0;
  std::string first_bad = {};  // the first bad images with their faults, for a message; UTF-8
  std::uint64_t bytes = 0;     // of the file, up to the end of these rows
  std::uint64_t hash = 0;      // of these bytes
  bool operator==(const ScoreProgress&) const = default;
};

// Far more than the JSON of a ScoreProgress takes.
constexpr std::size_t kMaxProgressBytes = 1 << 20;

// A JSON object, ASCII.
std::string format_score_progress(const ScoreProgress& progress);

// Throws JsonFault for text that format_score_progress() would not write.
ScoreProgress parse_score_progress(std::string_view json);

// "--top-k was 1 and is now 3", one text for each setting that differs.
std::vector<std::string> differences(const std::map<std::string, std::string>& before,
                                     const std::map<std::string, std::string>& now);

}  // namespace kiln
