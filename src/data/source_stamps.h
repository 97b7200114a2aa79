// Whether a data set on disk may have changed: a number for each folder and file that was read to
// list it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kiln {

struct SourceStamp {
  std::string name;  // relative to the root; empty: the root itself
  std::int64_t stamp = 0;
  std::int64_t changed_ns = 0;  // when it last changed, by its file system; 0 for a root folder
};

// Of a folder below the root: when an entry of it last came or went. Of a file: when it changed,
// and its size. Of a root folder: its visible names, since an index may come to lie in it. Take it
// before reading what it stands for. A stamp of 0: it cannot be read.
SourceStamp stamp_of(const std::filesystem::path& root, const std::string& name);

// The names whose stamp is another now; looked up in parallel.
std::vector<std::string> changed_sources(const std::filesystem::path& root,
                                         const std::vector<SourceStamp>& stamps);

}  // namespace kiln
