// The members of an uncompressed tar: names and places, nothing unpacked.
// Formats: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header"; GNU tar manual, "Basic
// Tar Format" (long names, numbers in base 256).
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "data/open_file.h"

namespace kiln {

// Why an archive cannot be used: a clause without its name.
class ArchiveFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ArchiveEntry {
  std::string_view name;  // without a leading "./"; valid during the visit
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// Calls `visit` for every regular file, in order; folders, links and devices are passed over.
// Checks every header's checksum, every size against the file, every name (relative, no ".."), and
// the end mark. Throws ArchiveFault, std::system_error.
void list_tar(const OpenFile& file, const std::function<void(const ArchiveEntry&)>& visit);

// Whether the first block of `file` is a header of a tar.
bool is_tar(const OpenFile& file);

}  // namespace kiln
