// A folder that one program at a time writes into, and whose files change together.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"

namespace kiln {

// A file that another process has finished (DurableFile::finish()) and keeps until it is in place.
struct FinishedFile {
  std::filesystem::path temporary, name;  // relative to the folder
};

// Holds a lock on a folder. New files are complete under temporary names before a list of them,
// `.kiln-journal`, appears; then each is renamed, and the list is removed. A program that is killed
// before the list appears has changed nothing; after that, the next OutputFolder on the folder
// finishes what the list says, or discards it. Until then the folder is not a valid one: its last
// file, which makes it valid, is removed first and comes back last.
//
// Every failure is Error kFailedToWriteOutputs. One thread.
class OutputFolder {
 public:
  // What becomes of what a killed program began to put in place.
  enum class Interrupted { kFinish, kDiscard };

  // Makes the folder and its parents where they are missing, locks it until the destruction of this
  // object, and ends what was interrupted. Fails where another program holds the lock and keeps it
  // for 3 s; file systems without locks do without.
  explicit OutputFolder(std::filesystem::path folder,
                        Interrupted interrupted = Interrupted::kFinish);
  ~OutputFolder();
  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  OutputFolder& operator=(OutputFolder&&) = delete;

  const std::filesystem::path& path() const { return folder_; }

  // Puts files in place that lie in the folder or below it, and removes those `removed` (relative
  // to the folder) that exist. At least one file; the last one makes the folder valid. `of_others`
  // are put in place before them. A failure before the list appears leaves the folder as it was.
  void replace(std::vector<DurableFile> files, const std::vector<std::filesystem::path>& removed,
               const std::vector<FinishedFile>& of_others = {}) const;

 private:
  std::filesystem::path folder_;
  int lock_ = -1;
};

// Whether a program was killed while it put files in place, or is just doing so: readers refuse
// such a folder.
bool is_half_replaced(const std::filesystem::path& folder);

}  // namespace kiln
