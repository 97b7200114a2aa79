// The names in an archive that has links, which are followed as a file system would after unpacking
// it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/archive/archive.h"

namespace kiln {

class ArchiveTree {
 public:
  struct Link {
    std::string name, target;
    bool is_hard = false;
  };
  struct Node {
    Node* parent = nullptr;  // nullptr: the archive itself
    std::string_view name;   // the last part
    std::map<std::string, std::unique_ptr<Node>, std::less<>> inside;
    std::optional<ArchiveMember> member;
    const Link* link = nullptr;
    bool is_below(const Node& folder) const;
  };

  void add(std::string_view name, const ArchiveMember& member);
  // nullptr: the same link is there already. `link` must outlive the tree. Throws ArchiveFault if
  // there is one of this name with another target.
  const Node* add(const Link& link);

  // What a link leads to: a file or a folder, not another link. A symbolic link's target is
  // relative to the folder that the link is in, a hard link's to the archive. Throws as spend()
  // does.
  struct Target {
    const Node* node = nullptr;  // nullptr: nothing, or only a circle of links
    bool is_outside = false;     // of the archive
  };
  Target target_of(const Node& link);

  // Counts work against a limit: following links takes time and memory in proportion to the
  // archive. Throws ArchiveFault beyond it.
  void spend(std::size_t work);

 private:
  Node& node_of(std::string_view name);

  Node root_;
  std::size_t num_nodes_ = 0, spent_ = 0;
};

}  // namespace kiln
