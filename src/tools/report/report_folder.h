// The output folder of a command that writes a page and files.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/output_folder.h"

namespace kiln {

// Opens an output folder that is new, empty, or holds an earlier report, which is recognized by the
// file `valid_file`. Throws Error kFailedToWriteOutputs.
inline OutputFolder open_report_folder(const std::filesystem::path& path,
                                       std::string_view valid_file) {
  OutputFolder folder(path);
  if (!is_there(path / valid_file)) folder.require_empty();
  folder.prepare();
  return folder;
}

}  // namespace kiln
