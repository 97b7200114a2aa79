// The place of one URL's file in the user's cache.
//
//   $XDG_CACHE_HOME/kiln/weights/1a2b3c4d-resnet50-0676ba61.pth          once it is complete
//                                1a2b3c4d-resnet50-0676ba61.pth.part     until then
//                                1a2b3c4d-resnet50-0676ba61.pth.fetch    what is known of either
//
// The number is a hash of the URL.
#pragma once

#include <filesystem>
#include <string>

#include "base/log.h"

namespace kiln {

// $XDG_CACHE_HOME/kiln/weights, else ~/.cache/kiln/weights. Error kFailedToWriteOutputs where
// neither variable names a folder.
std::filesystem::path weights_cache_folder();

// Throws Error kFailedToWriteOutputs: `error`, an errno, kept `path` in the cache from being
// written.
[[noreturn]] void fail_in_cache(const std::filesystem::path& path, int error);

class CacheEntry {
 public:
  // One of the two is not empty, or nothing is known.
  struct Record {
    std::string validator = {};  // of the part: how the server knows its file again
    std::string sha256 = {};     // of the whole file
  };

  CacheEntry(const std::filesystem::path& folder, const std::string& url);
  ~CacheEntry();
  CacheEntry(const CacheEntry&) = delete;
  CacheEntry& operator=(const CacheEntry&) = delete;

  const std::filesystem::path& file() const { return file_; }
  std::filesystem::path part() const { return file_.string() + ".part"; }

  // Empty where there is none, or a damaged one.
  Record read() const;

  // Makes the folder, and waits until no other process fetches this file; the log says so. File
  // systems without locks do without. Error kFailedToWriteOutputs.
  void lock(Log& log);
  // Under the lock. Error kFailedToWriteOutputs.
  void write(const Record& record) const;

 private:
  std::filesystem::path file_, record_file_;
  int descriptor_ = -1;  // of the record's file, which also carries the lock
};

}  // namespace kiln
