#include "commands/driver_log.h"

#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace kiln {

bool open_driver_log(const std::string& log_path, bool given, Process& process) {
  try {
    make_folders(log_path);
    process.log.open_file(std::filesystem::path(log_path) /
                          formatted("70_driver_log_%d.txt", process.world.rank()));
    return true;
  } catch (const Error&) {
    if (given) throw;
    process.log.warning(
        "the folder '" + log_path +
        "' is not writable, so no log files are written; use --log-path to choose another");
    return false;
  }
}

}  // namespace kiln
