#include "tools/driver_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/kernel_lock.h"
#include "base/text.h"

namespace kiln {
namespace {

std::filesystem::path driver_log_of(const std::string& log_path, int rank) {
  return std::filesystem::path(log_path) / formatted("70_driver_log_%d.txt", rank);
}

}  // namespace

void lock_log_folder(const std::string& log_path, Process& process) {
  try {
    make_folders(log_path);
  } catch (const Error&) {
    return;  // whoever writes there will say so
  }
  const int file = ::open(driver_log_of(log_path, 0).c_str(),
                          O_RDWR | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
  HeldLock lock(file);
  struct stat info {};
  if (file < 0 || ::fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) return;
  const LockResult result = lock_soon(file, [&] {
    process.log.info("Waiting for the run that writes its logs to '" + log_path + "' to end.");
  });
  if (result == LockResult::kInUse) {
    process.error_info.reset();
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "The log folder '" + log_path + "' is in use by another run, which is still " +
                    "writing to it. Wait until it ends, or give each run its own --log-path.");
  }
  if (result == LockResult::kNoLocks)
    process.log.info("The file system of '" + log_path + "' has no locks, so nothing would " +
                     "notice a second run that writes its logs there.");
  process.log_folder = std::move(lock);
}

bool open_driver_log(const std::string& log_path, bool given, Process& process) {
  if (process.world.leads()) lock_log_folder(log_path, process);
  try {
    make_folders(log_path);
    process.log.open_file(driver_log_of(log_path, process.world.rank()));
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
