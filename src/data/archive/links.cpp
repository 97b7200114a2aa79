#include "data/archive/links.h"

#include <algorithm>
#include <vector>

namespace kiln {
namespace {

constexpr int kMostLinks = 40;                // one after the other, as in Linux
constexpr std::size_t kMostPathBytes = 4096;  // likewise
constexpr std::size_t kWorkOfANode = 64;

// Adds the parts of a path, the first one last.
void add_parts(std::string_view path, std::vector<std::string_view>& parts) {
  while (!path.empty()) {
    const std::size_t slash = path.rfind('/');
    const std::string_view part = path.substr(slash + 1);
    if (!part.empty() && part != ".") parts.push_back(part);
    path = path.substr(0, slash == path.npos ? 0 : slash);
  }
}

}  // namespace

bool ArchiveTree::Node::is_below(const Node& folder) const {
  const Node* above = parent;
  while (above != nullptr && above != &folder) above = above->parent;
  return above != nullptr;
}

ArchiveTree::Node& ArchiveTree::node_of(std::string_view name) {
  std::vector<std::string_view> parts;
  add_parts(name, parts);
  Node* node = &root_;
  for (; !parts.empty(); parts.pop_back()) {
    auto place = node->inside.find(parts.back());
    if (place == node->inside.end()) {
      place = node->inside.emplace(parts.back(), std::make_unique<Node>()).first;
      place->second->parent = node;
      place->second->name = place->first;
      ++num_nodes_;
    }
    node = place->second.get();
  }
  return *node;
}

void ArchiveTree::add(std::string_view name, const ArchiveMember& member) {
  node_of(name).member = member;
}

const ArchiveTree::Node* ArchiveTree::add(const Link& link) {
  Node& node = node_of(link.name);
  if (node.link == nullptr) {
    node.link = &link;
    return &node;
  }
  if (node.link->target != link.target || node.link->is_hard != link.is_hard)
    throw ArchiveFault("'" + link.name.substr(0, 200) + "' appears in it twice, as links to '" +
                       node.link->target.substr(0, 200) + "' and '" + link.target.substr(0, 200) +
                       "'");
  return nullptr;
}

ArchiveTree::Target ArchiveTree::target_of(const Node& link) {
  int num_links = 0;
  std::vector<std::string_view> parts;  // that are still to go, the next one last
  const Node* here = &link;
  while (true) {
    if (here->link != nullptr) {
      const std::string& target = here->link->target;
      if (target.starts_with('/')) return {nullptr, /*is_outside=*/true};
      if (target.empty() || target.size() > kMostPathBytes || ++num_links > kMostLinks) return {};
      add_parts(target, parts);
      here = here->link->is_hard ? &root_ : here->parent;
    }
    if (parts.empty()) return {here};
    spend(1);
    const std::string_view part = parts.back();
    parts.pop_back();
    if (part == "..") {
      if (here->parent == nullptr) return {nullptr, /*is_outside=*/true};
      here = here->parent;
      continue;
    }
    const auto found = here->inside.find(part);
    if (found == here->inside.end()) return {};
    here = found->second.get();
  }
}

void ArchiveTree::spend(std::size_t work) {
  spent_ += work;
  if (spent_ > kWorkOfANode * num_nodes_ + 1000)
    throw ArchiveFault("its links lead to many times the files that it has");
}

}  // namespace kiln
