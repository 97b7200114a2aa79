#include "record/earlier_run.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files.h"
#include "record/run_file.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWaiting = ".before";

// What a run writes into its log folder. Between prefix and ending, a name has a number or nothing,
// and for TensorBoard the time and the host.
struct LogFiles {
  const char *folder, *prefix, *ending;
  bool is_begun_at_start = false;
};
constexpr LogFiles kLogFiles[] = {{"", "70_driver_log_", ".txt", true},
                                  {"", "70_mpi_log", ".txt", true},
                                  {"", "70_nccl_log_", ".txt", true},
                                  {"", "split", ".csv", true},
                                  {"", "first_batch", ".jpg", true},
                                  {"", "epochs", ".csv"},
                                  {"", "repeat", ".yaml"},
                                  {"", "report", ".html"},
                                  {"", "pictures", ".bin"},
                                  {"module_statistics", "error_info", ".json"},
                                  {"tensorboard", "events.out.tfevents.", ".kiln"}};

struct LogFile {
  fs::path now, name;  // in the log folder: where it is, and its name
  const LogFiles* kind;
  bool waits() const { return now != name; }
  // TensorBoard's file of the new run is there already.
  bool is_of_run_since(double started) const {
    return std::string_view(kind->ending) == ".kiln" &&
           std::strtod(name.filename().c_str() + std::string_view(kind->prefix).size(), nullptr) >=
               std::nearbyint(started);
  }
};

std::vector<LogFile> log_files(const fs::path& logs) {
  std::vector<LogFile> files;
  for (const LogFiles& kind : kLogFiles)
    for (const std::string& name : names_in(logs / kind.folder)) {
      const std::string_view prefix = kind.prefix, ending = kind.ending;
      if (!name.starts_with(prefix) || !name.ends_with(ending) ||
          name.size() < prefix.size() + ending.size())
        continue;
      std::string middle(name, prefix.size(), name.size() - prefix.size() - ending.size());
      if (kind.is_begun_at_start && middle.ends_with(kWaiting))
        middle.resize(middle.size() - kWaiting.size());
      if (ending != ".kiln" && middle.find_first_not_of("0123456789") != middle.npos) continue;
      const fs::path folder = kind.folder;
      files.push_back(
          {folder / name, folder / (std::string(prefix) + middle + std::string(ending)), &kind});
    }
  return files;
}

}  // namespace

void set_aside(const fs::path& logs, std::string_view prefix) {
  if (!holds_other_run(logs / kRunFileName, /*started=*/0)) return;
  const std::vector<LogFile> files = log_files(logs);
  for (const LogFile& file : files) {
    // Beside one that waits, this is the file of a run that has not finished an epoch.
    const bool has_waiting = std::ranges::any_of(
        files, [&](const LogFile& other) { return other.waits() && other.name == file.name; });
    if (has_waiting || !file.kind->is_begun_at_start || !file.name.string().starts_with(prefix))
      continue;
    std::error_code fault;
    fs::rename(logs / file.now,
               logs / (file.now.stem().string() + std::string(kWaiting) + file.kind->ending),
               fault);
  }
}

void keep_earlier_run(const fs::path& logs, double started, const fs::path& before) {
  const bool moves = !before.empty() && holds_other_run(logs / kRunFileName, started);
  // Without a record there, what it holds was brought by a move that did not end.
  if (moves && fs::remove(before / kRunFileName))
    for (const LogFile& file : log_files(before)) fs::remove(before / file.now);
  for (const LogFile& file : log_files(logs)) {
    if (moves && !file.is_of_run_since(started) && file.waits() == file.kind->is_begun_at_start) {
      make_folders((before / file.name).parent_path());
      fs::rename(logs / file.now, before / file.name);
    } else if (file.waits()) {
      fs::remove(logs / file.now);
    }
  }
  if (moves) fs::rename(logs / kRunFileName, before / kRunFileName);
}

}  // namespace kiln
