#include "weights/resolve_weights.h"

#include "base/error.h"
#include "base/text.h"

namespace kiln {

bool is_address(std::string_view weights) {
  return weights.starts_with("https://") || weights.starts_with("http://");
}

std::filesystem::path resolve_weights(const std::string& weights, Log&) {
  if (is_address(weights))
    throw Error(ErrorCode::kFailedToDownloadFiles,
                "--weights is the address '" + excerpt(weights) +
                    "', but this program cannot fetch it: download the file and give its path.");
  return weights;
}

}  // namespace kiln
