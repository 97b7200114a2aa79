#include "run/disk_space.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <algorithm>
#include <map>
#include <system_error>

#include "base/error.h"
#include "base/text.h"
#include "store/checkpoint.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::uint64_t bytes_below(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code fault;
  for (fs::recursive_directory_iterator entry(folder, fault), end; !fault && entry != end;
       entry.increment(fault)) {
    std::error_code gone;  // a checkpoint may be removed meanwhile
    const std::uintmax_t size = entry->is_regular_file(gone) ? entry->file_size(gone) : 0;
    if (!gone) bytes += size;
  }
  return bytes;
}

}  // namespace

std::vector<std::string> shortages(const std::vector<SpaceNeed>& needs) {
  std::map<dev_t, std::vector<const SpaceNeed*>> by_device;
  for (const SpaceNeed& need : needs) {
    struct stat info {};
    if (::stat(need.folder.c_str(), &info) == 0) by_device[info.st_dev].push_back(&need);
  }
  std::vector<std::string> sentences;
  for (const auto& [device, parts] : by_device) {
    struct statvfs found {};
    if (::statvfs(parts.front()->folder.c_str(), &found) != 0 || found.f_blocks == 0) continue;
    const std::uint64_t available = std::uint64_t{found.f_bavail} * found.f_frsize;
    std::uint64_t needed = 0;
    std::vector<std::string> words;
    for (const SpaceNeed* part : parts) {
      needed += part->bytes;
      words.push_back(bytes_text(part->bytes) + " for " + part->what + " in '" +
                      part->folder.string() + "'");
    }
    if (needed > available)
      sentences.push_back("The disk has " + bytes_text(available) + " left, and this run needs " +
                          joined(words, " and ") + ".");
  }
  return sentences;
}

// A model directory has its weights twice, in two formats. A checkpoint is written before the
// oldest one is removed; the best epoch's weights, which they share, are replaced in the same way.
std::vector<std::string> DiskSpace::faults() const {
  std::vector<SpaceNeed> needs{{plan_.model_folder, 2 * plan_.weights_bytes + plan_.features_bytes,
                                plan_.features_bytes > 0
                                    ? "the model, twice its weights, and features"
                                    : "the model, twice its weights,"}};
  if (!plan_.checkpoint_folder.empty()) {
    const std::uint64_t one = plan_.checkpoint_bytes;
    const std::uint64_t all =
        std::uint64_t{kKeptCheckpoints + 1} * (one - plan_.weights_bytes) + 2 * plan_.weights_bytes;
    const std::uint64_t there = bytes_below(plan_.checkpoint_folder);
    needs.push_back({plan_.checkpoint_folder, std::max(one, all - std::min(all, there)),
                     formatted("%d checkpoints and the next one", kKeptCheckpoints)});
  }
  return shortages(needs);
}

void DiskSpace::require() const {
  const std::uint64_t largest =
      plan_.checkpoint_folder.empty()
          ? plan_.weights_bytes
          : std::max(plan_.weights_bytes, plan_.checkpoint_bytes - plan_.weights_bytes);
  if (rlimit most{}; ::getrlimit(RLIMIT_FSIZE, &most) == 0 && largest > most.rlim_cur)
    throw Error(ErrorCode::kFailedToWriteOutputs, "The file size limit (ulimit -f) is " +
                                                      bytes_text(most.rlim_cur) +
                                                      ", and this run writes a file of " +
                                                      bytes_text(largest) + ". Raise the limit.");
  const std::vector<std::string> found = faults();
  if (found.empty()) return;
  throw Error(ErrorCode::kFailedToWriteOutputs,
              joined(found, " ") + " Free some space, or choose other folders.");
}

void DiskSpace::watch() {
  const std::vector<std::string> found = faults();
  if (const bool was_short = std::exchange(is_short_, !found.empty()); was_short || found.empty())
    return;
  log_.warning("There is no longer room for the results of this run. " + joined(found, " ") +
               " Free some space before it ends.");
}

}  // namespace kiln
