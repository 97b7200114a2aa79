// Compressed tars, unpacked so that their members can be read by place.
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/open_file.h"

namespace kiln {

// Whether `file` begins as gzip, bzip2 or Zstandard data does.
bool is_compressed(const OpenFile& file);

// What `path` unpacks to, in a file without a name in the folder for temporary files (TMPDIR, else
// /tmp): its space comes back when this process ends, however it ends. Throws ArchiveFault
// (data/tar_archive.h): cut off, damaged, more than nine tenths of the free space, or larger than
// 1 GiB and 200 times what it was unpacked from. std::system_error.
OpenFile unpacked(const std::filesystem::path& path);

}  // namespace kiln
