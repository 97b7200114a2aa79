// Fetches a file from a URL given by the user; later calls take it from the user's cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/log.h"

namespace kiln {

// SHA-256 (FIPS 180-4), which publishers of weights use to identify their files.

// As 64 lowercase hexadecimal digits.
std::string sha256_of(std::string_view bytes);

// The hash of a regular file, which is read piece by piece. Throws std::system_error naming the
// path if it cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

struct FetchRequest {
  std::string url;
  std::string sha256 = {};  // 64 hexadecimal digits in lowercase; empty: not given
  std::uint64_t max_bytes = std::uint64_t{4} << 30;
  int stall_s = 60;                       // seconds without progress before giving up
  std::string says = "--weights-sha256";  // where `sha256` stands
  std::string advice = {};                // if the file has another; empty: for what a user gave
};

// Returns the file's path in the cache ($XDG_CACHE_HOME/kiln/weights, else ~/.cache/kiln/weights)
// after verifying its SHA-256: against `sha256`, else against the digits in its name
// (digits_in_name()). A file that was in the cache already must also match the hash recorded when
// it was transferred. The log says where the file comes from.
//
// A transfer that fails begins anew, a few times if the failure may pass. Processes that want the
// same file wait for the one that fetches it. Only https:// is fetched, and http:// from this
// machine (fault_of_url()); this also holds for redirects. Errors: kFailedToDownloadFiles, naming
// the URL and the reason; kFailedToWriteOutputs for the cache.
std::filesystem::path fetch_file(const FetchRequest& request, Log& log);

// The first digits of the file's SHA-256, as torchvision and timm put them in file names
// ("resnet50-0676ba61.pth"); empty if there are none. Eight decimal digits that may be a date do
// not count.
std::string digits_in_name(const std::string& file_name);

// Resolves the options --weights and --weights-sha256 to a path.

// Returns `weights` itself if it is a path; if it is a URL, or names a published file for
// `network`, the path of the file fetched from there, with the URL's #PART. With `sha256` (64
// hexadecimal digits in lowercase, or empty), a file given by its path is verified too: Error
// kInvalidModelDirectory if it does not match or cannot be read.
std::string resolve_weights(const std::string& weights, const std::string& sha256,
                            const std::string& network, Log& log);

}  // namespace kiln
