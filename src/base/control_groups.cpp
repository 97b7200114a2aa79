#include "base/control_groups.h"

#include <algorithm>
#include <fstream>
#include <limits>

namespace kiln {
namespace {

constexpr long long kNoLimit = 1LL << 62;

long long memory_left_in_group(const std::filesystem::path& folder) {
  std::ifstream limit_file(folder / "memory.max"), used_file(folder / "memory.current"),
      parts(folder / "memory.stat");
  long long limit = 0, used = 0;  // reading "max", for no limit, fails
  if (!(limit_file >> limit && used_file >> used)) return kNoLimit;
  std::string part;
  for (long long bytes = 0; parts >> part >> bytes;)
    if (part == "active_file" || part == "inactive_file") used -= bytes;
  return std::max(limit - used, 0LL);
}

double cpus_of_group(const std::filesystem::path& folder) {
  std::ifstream quota(folder / "cpu.max");  // "200000 100000" or "max 100000"
  double microseconds = 0, period = 0;
  const bool is_limited = quota >> microseconds >> period && period > 0;
  return is_limited ? microseconds / period : std::numeric_limits<double>::infinity();
}

// The least of what `of_group` returns for `root` and the groups from there to `group`.
template <typename OfGroup>
auto least(const std::filesystem::path& root, const std::filesystem::path& group,
           OfGroup&& of_group) {
  auto found = of_group(root);
  std::filesystem::path folder = root;
  for (const std::filesystem::path& name : group.relative_path())
    found = std::min(found, of_group(folder /= name));
  return found;
}

}  // namespace

std::string own_control_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::/")) return line.substr(3);
  return "/";
}

long long memory_left_in_groups(const std::filesystem::path& root,
                                const std::filesystem::path& group) {
  return least(root, group, memory_left_in_group);
}

double cpus_of_groups(const std::filesystem::path& root, const std::filesystem::path& group) {
  return least(root, group, cpus_of_group);
}

}  // namespace kiln
