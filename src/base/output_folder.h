// A folder that only one program at a time writes into, and whose files change together.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"

namespace kiln {

struct OutputFile {
  std::string name;  // in or below the folder
  std::string bytes;
};

// Holds a lock on a folder. New files are first completed under temporary names; then a list of
// them, `.kiln-journal`, appears; then each file is renamed, and the list is removed. A program
// killed before the list appears has changed nothing. After that point, the next OutputFolder on
// the folder completes the listed changes or discards them. Until then the folder is not valid: its
// last file, the one that makes it valid, is removed first and comes back last.
//
// Every failure is Error kFailedToWriteOutputs. Use from one thread.
class OutputFolder {
 public:
  // What to do with changes that a killed program had started to put in place.
  enum class Interrupted { kFinish, kDiscard };

  // Creates the folder and its parents if necessary, locks the folder for the lifetime of this
  // object, and finishes or discards interrupted changes. Fails if another program holds the lock
  // (see lock_soon()). On file systems without locks, goes on without one.
  explicit OutputFolder(std::filesystem::path folder,
                        Interrupted interrupted = Interrupted::kFinish);

  const std::filesystem::path& path() const { return folder_; }

  // Fails if no file can be written and renamed, before work whose result is written much later.
  // Removes what killed programs left.
  void prepare() const;

  // Fails if the folder holds anything but ignored names.
  void require_empty() const;

  // Puts `files`, which lie in or below the folder, in place, and removes those of `removed`
  // (relative to the folder) that exist and are not among the files. There is at least one file;
  // the last one makes the folder valid. A failure before the list appears leaves the folder
  // unchanged.
  void replace(std::vector<DurableFile> files,
               const std::vector<std::filesystem::path>& removed) const;
  // Writes the files, and puts them in place likewise.
  void replace(const std::vector<OutputFile>& files,
               const std::vector<std::filesystem::path>& removed = {}) const;

 private:
  // Removes the folders that were created here, the innermost first, and the empty ones in that, if
  // an error ends their use before anything is in them.
  static void remove_if_empty(std::vector<std::filesystem::path>* folders);

  std::filesystem::path folder_;
  Descriptor lock_;
  std::unique_ptr<std::vector<std::filesystem::path>, decltype(&remove_if_empty)> created_;
};

// Where the contents of a folder are kept that others take the place of: `NAME.before` beside the
// folder itself, also if the path is one of a link to it, `.` or ends in a slash. Empty if nothing
// can be written there, or not on the same file system: the folder is a mount point.
std::filesystem::path path_of_before(const std::filesystem::path& folder);

// Whether a program was killed while putting files in place, or is doing so right now. Readers
// refuse such a folder.
bool is_half_replaced(const std::filesystem::path& folder);

// Throws Error kFailedToWriteOutputs. `fault` follows "The output folder '…' ", `remedy` is a
// sentence.
[[noreturn]] void fail_output_folder(const std::filesystem::path& folder, const std::string& fault,
                                     const std::string& remedy);

}  // namespace kiln
