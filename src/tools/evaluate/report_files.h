// The files in the folder of an evaluation, which appear together.
#pragma once

#include <deque>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "base/files.h"
#include "base/output_folder.h"
#include "report/sinks.h"

namespace kiln {

// Writes all files of an evaluation under temporary names, and renames them when all are complete.
class OutputFiles {
 public:
  explicit OutputFiles(const std::filesystem::path& folder) : folder_(folder) {}

  DurableFile& begin(const std::string& name) {
    if (const std::filesystem::path parent = (folder_ / name).parent_path(); parent != folder_)
      make_folders(parent);
    return files_.emplace_back(folder_ / name);
  }
  void add(const std::string& name, const std::string& bytes) { begin(name).write(bytes); }

  // Puts all files in place, the last one last, and removes those left by an earlier evaluation.
  void commit(const OutputFolder& output) {
    std::vector<std::filesystem::path> removed = earlier_files();
    for (const DurableFile& file : files_)
      std::erase(removed, file.final_path().lexically_relative(folder_));
    std::vector<DurableFile> files(std::move_iterator(files_.begin()),
                                   std::move_iterator(files_.end()));
    output.replace(std::move(files), removed);
  }

 private:
  // Files of an earlier evaluation whose names this one may not reuse: they depend on the number of
  // models or on the time.
  std::vector<std::filesystem::path> earlier_files() const {
    std::vector<std::filesystem::path> files;
    std::error_code failure;
    for (auto entry = std::filesystem::recursive_directory_iterator(folder_, failure);
         !failure && entry != std::filesystem::recursive_directory_iterator();
         entry.increment(failure)) {
      const std::string name = entry->path().filename().string();
      if (is_event_file_name(name) || name.starts_with("answers") ||
          name.starts_with("evaluation-") || name == "differences.csv")
        files.push_back(entry->path().lexically_relative(folder_));
    }
    return files;
  }

  const std::filesystem::path folder_;
  std::deque<DurableFile> files_;
};

}  // namespace kiln
