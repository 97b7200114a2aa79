// Where the rows of `kiln score` go: a file that has its name once it is whole, or standard output.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "base/files.h"

namespace kiln {

// The file is PATH.part until commit() gives it its name, in place of an earlier one. A killed
// program leaves PATH.part, which the next one begins anew. One thread. Every failure is Error
// kFailedToWriteOutputs.
class ScoreFile {
 public:
  // `path` empty: standard output. Refuses a file that could not get its name: its folder is
  // missing, there is a folder or a device of this name, or another program writes it.
  explicit ScoreFile(std::filesystem::path path);
  ~ScoreFile();  // removes what was not committed
  ScoreFile(const ScoreFile&) = delete;
  ScoreFile& operator=(const ScoreFile&) = delete;

  void write(std::string_view rows);
  void commit();

 private:
  std::filesystem::path path_, part_path_;
  std::optional<AppendedFile> part_;
};

}  // namespace kiln
