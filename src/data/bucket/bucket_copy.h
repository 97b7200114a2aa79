// A copy of what the URL of a bucket names, in the user's cache: from there on it is a folder or a
// file like any other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/log.h"
#include "modules/arrow/module.h"

namespace kiln {

struct BucketCopy {
  std::filesystem::path path;  // its last component is that of the URL
  Descriptor in_use;           // while it is open, no other process changes the copy
};

// Makes the copy of a URL (is_bucket(), fault_of_bucket() is empty) equal to the bucket: an object
// whose size or time differs is fetched, 32 at a time, and what is gone is removed. Each file has a
// temporary name until its size agrees, and its MD5 where the store gives it; it then has the time
// of its object, by which the next call knows it. So a call that ends early is continued. Objects
// that change meanwhile are listed again. Those that no file can be named like are left out, with a
// warning.
//
//   CACHE/1a2b3c4d5e6f7081/photos/…    the digits stand for the URL and the endpoint
//   CACHE/1a2b3c4d5e6f7081.lock        the lock
//
// One process at a time does this, and others wait for it. While a process uses a copy, later ones
// use it as it is, so all ranks of a machine see the same files. `cache`: empty for
// $XDG_CACHE_HOME/kiln/buckets, else ~/.cache/kiln/buckets. Errors: kFailedToDownloadFiles, naming
// the URL and the reason; kFailedToWriteOutputs for the cache, also if it has no room.
BucketCopy copy_bucket(const std::string& url, const std::filesystem::path& cache, Log& log);

// What there is, by name. Throws Error kFailedToDownloadFiles, also if there is nothing.
std::vector<BucketObject> list_bucket(const std::string& url);

}  // namespace kiln
