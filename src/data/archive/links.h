// The links of an archive, followed as a file system would after unpacking it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kiln {

class ArchiveLinks {
 public:
  struct Link {
    std::string name, target;
    bool is_hard = false;
  };

  // A symbolic link's target is relative to the folder that the link is in, a hard link's to the
  // archive.
  void add(Link link);
  const std::vector<Link>& all() const { return links_; }

  // Where the path leads: a path without links, "" for the archive itself. Empty if that is outside
  // of the archive, or in a circle.
  std::optional<std::string> resolved(std::string_view path) const;

 private:
  std::vector<Link> links_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

}  // namespace kiln
