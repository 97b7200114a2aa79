// What the options --weights and --weights-sha256 name -> a path.
#pragma once

#include <string>

#include "base/log.h"

namespace kiln {

// `weights` itself if it is a path; if it is a URL, the path of the file fetched from there
// (fetch/fetch_file.h). With `sha256` (64 hexadecimal digits in lowercase, or empty) a file at a
// path is compared, too: Error kInvalidModelDirectory if it is another one, or no file.
std::string resolve_weights(const std::string& weights, const std::string& sha256, Log& log);

}  // namespace kiln
