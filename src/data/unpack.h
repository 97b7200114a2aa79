// Compressed tars, unpacked so that their members can be read by place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>

#include "data/open_file.h"

namespace kiln {

// Whether `file` begins as gzip, bzip2 or Zstandard data does.
bool is_compressed(const OpenFile& file);

// Why the folder for temporary files does not take it: a clause that begins with that folder, such
// as "'/tmp' does not take it: No space left on device".
class SpoolFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What `path` unpacks to, in a file without a name in the folder for temporary files (TMPDIR, else
// /tmp): its space comes back when this process ends, however it ends. Throws ArchiveFault
// (data/tar_archive.h): cut off, damaged, or larger than 1 GiB and 200 times what it was unpacked
// from. SpoolFault. std::system_error of the archive itself.
OpenFile unpacked(const std::filesystem::path& path);

}  // namespace kiln
