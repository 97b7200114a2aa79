// The file that is being fetched, until it is complete.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/system.h"
#include "fetch/cache_entry.h"
#include "fetch/http_download.h"

namespace kiln {

// Writes what arrives behind what is there, and says how far it is: on a terminal in a line that
// changes, else every half minute. Errors: kFailedToDownloadFiles for more than `max_bytes` and for
// a transfer whose end does not show; kFailedToWriteOutputs for too little space and failed writes.
// The entry is locked and outlives this. One thread.
class PartFile : public DownloadSink {
 public:
  // A part without a record of where it comes from is not used.
  PartFile(const CacheEntry& entry, const std::string& url, std::uint64_t max_bytes, Log& log);
  ~PartFile() override;
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  // What a transfer resumes from: nothing, if the server cannot identify its file as the same.
  std::uint64_t size() const { return validator_.empty() ? 0 : size_; }
  const std::string& validator() const { return validator_; }
  // The most that was ever there: an attempt that does not add to it was in vain.
  std::uint64_t most_bytes() const { return most_bytes_; }

  // Starts over.
  void forget();

  // Writes it through to the disk, and returns the SHA-256 of what can be read from there.
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
  std::uint64_t total_ = 0;  // 0: not known
  Stopwatch watch_;
  double last_told_ = 0, last_noted_ = 0;  // seconds of `watch_`
};

// Gives the part, which has this SHA-256, the name of the whole file, and records the hash.
void keep(const CacheEntry& entry, const std::string& sha256);

}  // namespace kiln
