#include "model/weights/resolve_weights.h"

#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "base/url.h"
#include "model/weights/fetch_file.h"
#include "model/weights/sha256.h"
#include "store/state_dict_file.h"

namespace kiln {
namespace {

void check_file(const std::string& path, const std::string& sha256) {
  std::string found;
  try {
    found = sha256_of_file(path);
  } catch (const std::system_error& fault) {
    throw Error(ErrorCode::kInvalidModelDirectory,
                std::string("The weights cannot be checked against --weights-sha256: ") +
                    fault.what() + ". Check --weights.");
  }
  if (found == sha256) return;
  throw Error(ErrorCode::kInvalidModelDirectory,
              "The weights file " + quoted_path(path) + " has the SHA-256 " + found +
                  ", but --weights-sha256 is " + sha256 +
                  ": it is damaged or a different file. Check both.");
}

}  // namespace

std::string resolve_weights(const std::string& weights, const std::string& sha256, Log& log) {
  const auto [file, part] = file_and_part(weights);
  if (is_url(weights))
    return fetch_file({.url = file, .sha256 = sha256, .max_bytes = kMaxStateDictBytes}, log)
               .string() +
           (part.empty() ? "" : "#" + part);
  std::error_code fault;
  if (!sha256.empty() && std::filesystem::exists(file, fault)) check_file(file, sha256);
  return weights;
}

}  // namespace kiln
