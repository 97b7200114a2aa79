// The output folder of a command that writes a page and files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/output_folder.h"
#include "data/dataset/folder_entries.h"

namespace kiln {

// Opens an output folder that is new, empty, or holds an earlier report, which is recognized by the
// file `valid_file`. `what` describes the report in messages: "an evaluation". Throws Error
// kFailedToWriteOutputs.
inline OutputFolder open_report_folder(const std::filesystem::path& path,
                                       std::string_view valid_file, const std::string& what) {
  if (is_folder(path) && !is_there(path / valid_file))
    for (const FolderEntry& entry : FolderEntries(path))
      if (!is_ignored_name(entry.name))
        throw Error(ErrorCode::kFailedToWriteOutputs, "--output-path " + quoted_path(path) +
                                                          " holds files other than " + what +
                                                          ", such as '" + std::string(entry.name) +
                                                          "'. Give another folder, or empty it.");
  OutputFolder folder(path);
  rehearse_write(path / "probe");
  return folder;
}

}  // namespace kiln
