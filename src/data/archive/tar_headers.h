// The headers of a tar, one after another, however its bytes are read: in place or from a stream.
// Formats: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header"; GNU tar manual, "Basic
// Tar Format" (long names, numbers in base 256).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/archive/archive.h"

namespace kiln {

constexpr std::size_t kTarBlock = 512;

// A member's data are followed by zero bytes, up to a whole number of blocks.
constexpr std::uint64_t tar_padded(std::uint64_t size) {
  return (size + kTarBlock - 1) / kTarBlock * kTarBlock;
}

bool is_zero(std::string_view bytes);
// Of a header, which has kTarBlock bytes.
bool has_good_tar_checksum(std::string_view header);

class TarHeaders {
 public:
  enum class Kind {
    kFile,
    kOther,   // a folder, link or device: skipped
    kExtra,   // its data go to take_extra(), and describe the entry that follows
    kStrange  // sparse or split
  };
  struct Entry {
    Kind kind = Kind::kOther;
    char type = 0;           // as in the header
    std::uint64_t size = 0;  // of the data behind the header
  };

  // Of a header at byte `at`. Checks its checksum and numbers. Throws ArchiveFault.
  Entry read(std::string_view header, std::uint64_t at);

  // For an extra entry. Throws ArchiveFault.
  void take_extra(const Entry& entry, std::string_view data);

  // The name of an entry that is no extra one, without a leading "./", once; checked for files.
  // Throws ArchiveFault, also for a strange entry.
  std::string take_name(const Entry& entry, std::string_view header);

 private:
  void read_pax(char type, std::string_view data);
  void read_pax_record(char type, std::string_view key, std::string_view value);

  std::optional<std::string> long_name_;  // of the entry that follows
  std::optional<std::uint64_t> pax_size_;
};

}  // namespace kiln
