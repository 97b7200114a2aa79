// A file that the user named by its URL: fetched once, then taken from the user's cache.
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
  int stall_s = 60;  // without progress
};

// The file's place in the cache (fetch/cache_entry.h), after its SHA-256 was compared: with
// `sha256`, else with the digits in its name (digits_in_name()), else, of a file that was there,
// only with that of the transfer. The log says where it comes from.
//
// A transfer that breaks off is resumed, at once or in the next call, if the server still
// has the same file; after a few attempts that bring nothing it is a failure. Only https:// is
// fetched, and http:// from this machine (base/url.h), also after redirects. Errors:
// kFailedToDownloadFiles, naming the URL and the reason; kFailedToWriteOutputs for the cache. A
// file of another hash is removed. A kill leaves the part that is there.
std::filesystem::path fetch_file(const FetchRequest& request, Log& log);

// The first digits of the file's SHA-256 as torchvision's and timm's names have them
// ("resnet50-0676ba61.pth"); empty if there are none. Eight decimal digits that may be a date are
// none.
std::string digits_in_name(const std::string& file_name);

}  // namespace kiln
