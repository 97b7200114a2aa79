// The output folder of a command that writes a page and files.
#pragma once

#include <string>
#include <string_view>

#include "base/output_folder.h"

namespace kiln {

// Opens an output folder that is new, empty, or holds an earlier report, which is recognized by the
// file `valid_file`. `what` describes the report in messages: "an evaluation". Throws Error
// kFailedToWriteOutputs.
OutputFolder open_report_folder(const std::string& path, std::string_view valid_file,
                                const std::string& what);

}  // namespace kiln
