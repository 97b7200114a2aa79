// The file being fetched, until it is complete.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/system.h"
#include "fetch/cache_entry.h"
#include "fetch/http_download.h"

namespace kiln {

// Appends the bytes that arrive, and shows progress: on a terminal in a live line, otherwise in a
// log line every half minute. Errors: kFailedToDownloadFiles for more than `max_bytes`, and for a
// transfer whose truncation could not be detected; kFailedToWriteOutputs for too little space and
// failed writes. The entry must be locked and outlive this object. Use from one thread.
class PartFile : public DownloadSink {
 public:
  // Discards an existing part if there is no record of where it comes from.
  PartFile(const CacheEntry& entry, const std::string& url, std::uint64_t max_bytes, Log& log);
  ~PartFile() override;
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  // Where a transfer resumes; 0 if the server cannot identify the file as the same one.
  std::uint64_t size() const { return validator_.empty() ? 0 : size_; }
  const std::string& validator() const { return validator_; }
  // The largest size so far: an attempt that does not exceed it made no progress.
  std::uint64_t most_bytes() const { return most_bytes_; }

  // Discards the part, to start over.
  void forget();

  // Syncs the file to disk, and returns the SHA-256 of what can be read back from there.
  std::string finish();

  void begin(const DownloadHead& head) override;
  void add(std::string_view bytes) override;
  void look() override;

 private:
  void truncate();
  void check_size(std::uint64_t size) const;
  void check_space(std::uint64_t more) const;
  std::string progress_text() const;

  const CacheEntry& entry_;
  const std::string url_;
  const std::uint64_t max_bytes_;
  Log& log_;
  int descriptor_ = -1;
  std::string validator_;
  std::uint64_t size_ = 0, most_bytes_ = 0, num_fetched_ = 0;
  std::uint64_t total_ = 0;  // 0: unknown
  Stopwatch watch_;
  double last_told_ = 0, last_noted_ = 0;  // seconds of `watch_`
};

// Renames the part, whose SHA-256 this is, to the name of the complete file, and records the hash.
void keep(const CacheEntry& entry, const std::string& sha256);

}  // namespace kiln
