// What the limits of Linux control groups (version 2) leave to a process. The limits of a group
// bind all groups below it. `root` is where control groups are mounted, and `group` the path of the
// process's own group, such as "/job/step"; in a container it is "/", because a container sees its
// own group as the root.
#pragma once

#include <filesystem>
#include <string>

namespace kiln {

inline constexpr const char* kControlGroups = "/sys/fs/cgroup";

// The group of this process.
std::string own_control_group();

// The bytes left, at least 0; 2^62 without a limit. The page cache counts as free, since the kernel
// reclaims it before it kills a process.
long long memory_left_in_groups(const std::filesystem::path& root,
                                const std::filesystem::path& group);

// The processors that the quotas allow at a time, such as 1.5; infinity without a quota.
double cpus_of_groups(const std::filesystem::path& root, const std::filesystem::path& group);

}  // namespace kiln
