// The output of `kiln score`: a file that gets its final name once it is complete, or standard
// output; and its progress, which is stored beside it: what a killed job leaves for the next one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/content_hash.h"
#include "base/files.h"

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

constexpr std::size_t kMaxProgressBytes = 1 << 20;  // far more than the JSON takes
// A JSON object, ASCII.
std::string format_score_progress(const ScoreProgress& progress);
// Throws JsonFault for text that format_score_progress() would not write.
ScoreProgress parse_score_progress(std::string_view json);

// "--top-k was 1 and is now 3", one text for each setting that differs.
std::vector<std::string> differences(const std::map<std::string, std::string>& before,
                                     const std::map<std::string, std::string>& now);

// What remains of an incomplete file.
struct UnfinishedScores {
  std::optional<ScoreProgress> progress;  // for rows verified to be intact; empty: none
  std::string damage;  // why there is no progress, a clause; empty: nothing remains
};

// The file is PATH.part until commit() renames it to PATH, replacing an earlier file. Its progress
// is in PATH.part.json. A process that is killed or fails leaves what it had saved, and the next
// one can continue from there. One thread. Every failure is Error kFailedToWriteOutputs.
//
//   restart() or resume(), then any number of write() and save(), then commit() or discard()
class ScoreFile {
 public:
  // An empty `path` means standard output. Throws if the file could not get its final name: its
  // folder is missing, a folder or device has that name, or another process is writing it. Leaves
  // the remains of an earlier process unchanged.
  explicit ScoreFile(std::filesystem::path path);
  ~ScoreFile();  // removes what was neither saved nor committed
  ScoreFile(const ScoreFile&) = delete;
  ScoreFile& operator=(const ScoreFile&) = delete;

  // Reads and verifies what remains, using little memory.
  UnfinishedScores unfinished();
  void restart();
  // Continues after the rows of `progress`, which unfinished() returned; cuts off what follows
  // them.
  void resume(const ScoreProgress& progress);
  void write(std::string_view rows);
  // Makes the rows written so far durable: they survive a kill and a power failure. Fills in the
  // bytes and hash of `progress`. Not for standard output.
  void save(ScoreProgress progress);
  // Removes the file and its progress: nothing remains to continue from.
  void discard();
  void commit();

 private:
  std::filesystem::path path_, part_path_, progress_path_;
  std::optional<AppendedFile> part_;
  bool is_begun_ = false, is_saved_ = false;
  std::uint64_t bytes_ = 0;
  ContentHash hash_{0};  // of these bytes
};

}  // namespace kiln
