#include "commands/page_output.h"

#include "base/error.h"
#include "report/run_file.h"

namespace kiln {

void refuse_records(const std::filesystem::path& output,
                    const std::vector<std::string>& log_paths) {
  for (const std::string& path : log_paths) {
    std::error_code none_there;
    if (std::filesystem::equivalent(output, record_of(path), none_there))
      throw Error(ErrorCode::kUserError,
                  "'" + output.string() +
                      "' is the record of a run, and the page would take its place. Give another "
                      "--output-path.");
  }
}

}  // namespace kiln
