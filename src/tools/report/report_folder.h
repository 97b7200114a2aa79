// The output folder of a command that writes a page and files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/output_folder.h"
#include "data/dataset/folder_entries.h"

namespace kiln {

// Opens an output folder that is new, empty, or holds an earlier report, which is recognized by the
// file `valid_file`. `what` describes the report in messages: "an evaluation". Throws Error
// kFailedToWriteOutputs.
inline OutputFolder open_report_folder(const std::filesystem::path& path,
                                       std::string_view valid_file, const std::string& what) {
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure) &&
      !std::filesystem::exists(path / valid_file, failure))
    for (const FolderEntry& entry : FolderEntries(path))
      if (!entry.name.starts_with(".") && entry.name != "lost+found")
        throw Error(ErrorCode::kFailedToWriteOutputs, "--output-path " + quoted_path(path) +
                                                          " holds files other than " + what +
                                                          ", such as '" + std::string(entry.name) +
                                                          "'. Give another folder, or empty it.");
  return OutputFolder(path);
}

}  // namespace kiln
