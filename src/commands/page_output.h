// Where `kiln report` and `kiln compare` may write their page.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kiln {

// Throws Error kUserError where `output` is the record of one of the runs, by whatever name.
void refuse_records(const std::filesystem::path& output, const std::vector<std::string>& log_paths);

}  // namespace kiln
