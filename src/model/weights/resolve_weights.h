// Resolves the options --weights and --weights-sha256 to a path.
#pragma once

#include <string>

#include "base/log.h"

namespace kiln {

// Returns `weights` itself if it is a path; if it is a URL, the path of the file fetched from it
// (model/weights/fetch_file.h), with the URL's #PART. With `sha256` (64 hexadecimal digits in
// lowercase, or empty), a file given by its path is verified too: Error kInvalidModelDirectory if
// it does not match or cannot be read.
std::string resolve_weights(const std::string& weights, const std::string& sha256, Log& log);

}  // namespace kiln
