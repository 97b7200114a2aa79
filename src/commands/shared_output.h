// The output folder of ranks that write together: a single folder on a file system shared by their
// hosts, or one folder on each host.
#pragma once

#include <filesystem>
#include <vector>

#include "base/output_folder.h"
#include "parallel/ranks/world.h"

namespace kiln {

// Creates `folder` where it is missing. Returns, for each rank, its leader: the lowest rank that
// sees the same folder under this path. The leader manages the folder for all of them. Collective.
// Throws Error kFailedToWriteOutputs.
std::vector<int> folder_leaders(World& world, const std::filesystem::path& folder);

// The files finished by the other ranks whose leader is this rank. Collective.
std::vector<FinishedFile> files_of_others(World& world, const std::vector<int>& leaders,
                                          const std::vector<FinishedFile>& mine);

}  // namespace kiln
