// Where the rows of `kiln score` go: a file that has its name once it is complete, or standard
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

// What is left of a file that is incomplete.
struct UnfinishedScores {
  std::optional<ScoreProgress> progress;  // of rows that are there to the last bit
  std::string damage;  // else why there is none, a clause; empty: nothing is left
};

// The file is PATH.part until commit() renames it, replacing an earlier one; how far it
// has come is in PATH.part.json. A program that is killed or fails leaves what it had saved, from
// which the next one may go on. One thread. Every failure is Error kFailedToWriteOutputs.
//
//   begin_anew() or go_on(), then any number of write() and save(), then commit() or discard()
class ScoreFile {
 public:
  // `path` empty: standard output. Refuses a file that could not get its name: its folder is
  // missing, there is a folder or a device of this name, or another program writes it. Changes
  // nothing of what is left of it.
  explicit ScoreFile(std::filesystem::path path);
  ~ScoreFile();  // removes what is neither saved nor committed
  ScoreFile(const ScoreFile&) = delete;
  ScoreFile& operator=(const ScoreFile&) = delete;

  // Reads all of what is left, in little memory.
  UnfinishedScores unfinished();

  void begin_anew();
  // After unfinished() gave this progress: whatever follows its rows is cut off.
  void go_on(const ScoreProgress& progress);

  void write(std::string_view rows);
  // What is written outlives a kill from now on, and a power cut too. `progress` without bytes and
  // hash. Not for standard output.
  void save(ScoreProgress progress);
  // Nothing is to be gone on from.
  void discard();
  void commit();

 private:
  std::filesystem::path path_, part_path_, progress_path_;
  std::optional<AppendedFile> part_;
  bool is_begun_ = false, is_saved_ = false;
  std::uint64_t bytes_ = 0;
  ContentHash hash_{0};  // of these
};

}  // namespace kiln
