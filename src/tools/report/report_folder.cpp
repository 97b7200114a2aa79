#include "tools/report/report_folder.h"

#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "data/dataset/folder_entries.h"

namespace kiln {

namespace fs = std::filesystem;

OutputFolder open_report_folder(const std::string& path, std::string_view valid_file,
                                const std::string& what) {
  std::error_code failure;
  const bool is_folder = fs::is_directory(path, failure);
  if (is_folder && !fs::exists(fs::path(path) / valid_file, failure))
    for (const FolderEntry& entry : FolderEntries(path))
      if (!entry.name.starts_with(".") && entry.name != "lost+found")
        throw Error(ErrorCode::kFailedToWriteOutputs, "--output-path " + quoted_path(path) +
                                                          " holds files other than " + what +
                                                          ", such as '" + std::string(entry.name) +
                                                          "'. Give another folder, or empty it.");
  return OutputFolder(path);
}

}  // namespace kiln
