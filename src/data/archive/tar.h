// Parses the headers of a tar one after another, whether it is read in place or as a stream.
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

// A member's data is padded with zero bytes to a multiple of the block size.
constexpr std::uint64_t tar_padded(std::uint64_t size) {
  return (size + kTarBlock - 1) / kTarBlock * kTarBlock;
}

bool is_zero(std::string_view bytes);
// Whether a tar may begin with these bytes, of which kTarBlock are needed: a header or an end mark.
bool begins_as_tar(std::string_view first_bytes);

class TarHeaders {
 public:
  enum class Kind {
    kFile,
    kLink,    // hard or symbolic
    kDevice,  // or a pipe
    kFolder,
    kExtra,   // describes the next entry; pass its data to take_extra()
    kStrange  // sparse or split
  };
  struct Entry {
    Kind kind = Kind::kFolder;
    char type = 0;           // as in the header
    std::uint64_t size = 0;  // of the data that follows the header
  };

  // Reads the header at byte `at` of the tar. Checks its checksum and numbers. Throws ArchiveFault.
  Entry read(std::string_view header, std::uint64_t at);

  // Takes the data of a kExtra entry. Throws ArchiveFault.
  void take_extra(const Entry& entry, std::string_view data);

  // The name of an entry other than kExtra: for folders as stored, with their slash at the end, for
  // others normal_name(), checked. Call it exactly once per entry. Throws ArchiveFault, also for a
  // kStrange entry.
  std::string take_name(const Entry& entry, std::string_view header);

  // The target of the kLink entry whose name was taken last, as stored.
  const std::string& link_target() const { return link_target_; }

 private:
  void read_pax(char type, std::string_view data);
  void read_pax_record(char type, std::string_view key, std::string_view value);

  std::optional<std::string> long_name_, long_target_;  // of the next entry
  std::string link_target_;
  std::optional<std::uint64_t> pax_size_;
};

}  // namespace kiln
