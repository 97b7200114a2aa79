// From what `--weights` says to a file or folder.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/log.h"

namespace kiln {

// "https://…" or "http://…".
bool is_address(std::string_view weights);

// A path is returned as it is. The only place to fetch an address from. Throws Error
// kFailedToDownloadFiles.
std::filesystem::path resolve_weights(const std::string& weights, Log& log);

}  // namespace kiln
