// Zip files as written by torch.save: stored (uncompressed) entries only, zip64 where needed.
// Format: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kiln {

struct ZipEntry {
  std::string name;
  std::string_view bytes;
};

// Entries are views into `bytes`, which must outlive the archive. The constructor checks everything
// that list_zip() (data/archive/archive.h) checks, plus checksums and unique names. Rejects
// compressed and encrypted entries. Throws FormatFault.
class ZipArchive {
 public:
  explicit ZipArchive(std::string_view bytes);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;  // nullptr if there is none

 private:
  std::vector<ZipEntry> entries_;  // in the order of the directory
  std::unordered_map<std::string, std::size_t> by_name_;
};

// Aligns entries to 64 bytes, as torch does, so that readers can map them. The output depends only
// on names and data. Throws InternalError for files of 4 GiB and more.
class ZipWriter {
 public:
  explicit ZipWriter(std::size_t expected_bytes) { out_.reserve(expected_bytes); }
  void add(std::string_view name, std::string_view bytes);
  std::string finish() &&;

 private:
  std::string out_;
  std::string directory_;
  std::size_t count_ = 0;
};

}  // namespace kiln
