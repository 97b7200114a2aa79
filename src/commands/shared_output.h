// The output folder of ranks that write together: one for all of them on a file system that their
// hosts share, or one on each host.
#pragma once

#include <filesystem>
#include <vector>

#include "base/output_folder.h"
#include "parallel/ranks/world.h"

namespace kiln {

// Makes `folder` where it is missing. By rank: the lowest rank that has the same folder under this
// path, which keeps it in order for all of them. A collective. Error kFailedToWriteOutputs.
std::vector<int> folder_leaders(World& world, const std::filesystem::path& folder);

// Of the ranks, other than this one, whose leader this is: the files that they have finished. A
// collective.
std::vector<FinishedFile> files_of_others(World& world, const std::vector<int>& leaders,
                                          const std::vector<FinishedFile>& mine);

}  // namespace kiln
