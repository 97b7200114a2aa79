// The entries of a zip, from its directory alone: stored or deflated, zip64 where needed.
// Format: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3.
#pragma once

#include <functional>
#include <string_view>

#include "data/image_items.h"
#include "data/open_file.h"

namespace kiln {

// Calls `visit` for every file, in the directory's order; folders and links are passed over. Checks
// names (relative, no ".."), places (inside the file, none within another) and sizes (what deflate
// can reach). Throws ArchiveFault (data/tar_archive.h), std::system_error.
void list_zip(const OpenFile& file,
              const std::function<void(std::string_view name, const ArchiveMember&)>& visit);

}  // namespace kiln
