// Fetches a file from a URL given by the user; later calls take it from the user's cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/log.h"

namespace kiln {

struct FetchRequest {
  std::string url;
  std::string sha256 = {};  // 64 hexadecimal digits in lowercase; empty: not given
  std::uint64_t max_bytes = std::uint64_t{4} << 30;
  int stall_s = 60;  // seconds without progress before giving up
};

// Returns the file's path in the cache (fetch/cache_entry.h) after verifying its SHA-256: against
// `sha256`, else against the digits in its name (digits_in_name()). A file that was in the cache
// already must also match the hash recorded when it was transferred. The log says where the file
// comes from.
//
// An interrupted transfer is resumed, in this or a later call, if the server still has the same
// file; a few attempts in a row that add nothing are a failure. Only https:// is fetched, and
// http:// from this machine (base/url.h); this also holds for redirects. Errors:
// kFailedToDownloadFiles, naming the URL and the reason; kFailedToWriteOutputs for the cache. A
// file with the wrong hash is removed. If the process is killed, the part fetched so far remains.
std::filesystem::path fetch_file(const FetchRequest& request, Log& log);

// The first digits of the file's SHA-256, as torchvision and timm put them in file names
// ("resnet50-0676ba61.pth"); empty if there are none. Eight decimal digits that may be a date do
// not count.
std::string digits_in_name(const std::string& file_name);

}  // namespace kiln
