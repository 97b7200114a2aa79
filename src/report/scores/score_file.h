// The output of `kiln score`: a file that gets its final name once it is complete, or standard
// output.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/content_hash.h"
#include "base/files.h"
#include "report/scores/score_progress.h"

namespace kiln {

// What remains of an incomplete file.
struct UnfinishedScores {
  std::optional<ScoreProgress> progress;  // for rows verified to be intact; empty: none
  std::string damage;  // why there is no progress, a clause; empty: nothing remains
};

// The file is PATH.part until commit() renames it to PATH, replacing an earlier file. Its progress
// is in PATH.part.json. A process that is killed or fails leaves what it had saved, and the next
// one can continue from there. One thread. Every failure is Error kFailedToWriteOutputs.
//
//   begin_anew() or go_on(), then any number of write() and save(), then commit() or discard()
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

  void begin_anew();
  // Continues after the rows of `progress`, which unfinished() returned; cuts off what follows
  // them.
  void go_on(const ScoreProgress& progress);

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
