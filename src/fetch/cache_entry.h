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

// $XDG_CACHE_HOME/kiln/weights, else ~/.cache/kiln/weights. Throws Error kFailedToWriteOutputs if
// neither variable names a folder.
std::filesystem::path weights_cache_folder();

// Throws the Error kFailedToWriteOutputs that says why (`error` is an errno) `path` in the cache
// could not be written.
[[noreturn]] void fail_in_cache(const std::filesystem::path& path, int error);

class CacheEntry {
 public:
  // At most one of the two is set; if neither is, nothing is known.
  struct Record {
    std::string validator = {};  // of the part: identifies the file's version to the server
    std::string sha256 = {};     // of the whole file
  };

  CacheEntry(const std::filesystem::path& folder, const std::string& url);
  ~CacheEntry();
  CacheEntry(const CacheEntry&) = delete;
  CacheEntry& operator=(const CacheEntry&) = delete;

  const std::filesystem::path& file() const { return file_; }
  std::filesystem::path part() const { return file_.string() + ".part"; }

  // Reads the record; empty if there is none, or if it is damaged.
  Record read() const;

  // Creates the folder, and waits until no other process is fetching this file, which is logged. On
  // file systems without locks, goes on without one. Throws Error kFailedToWriteOutputs.
  void lock(Log& log);
  // Writes the record. Requires the lock. Throws Error kFailedToWriteOutputs.
  void write(const Record& record) const;

 private:
  std::filesystem::path file_, record_file_;
  int descriptor_ = -1;  // of the record file, on which the lock is held
};

}  // namespace kiln
