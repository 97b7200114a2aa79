#include "data/archive/links.h"

#include <algorithm>
#include <utility>

namespace kiln {

void ArchiveLinks::add(Link link) {
  while (link.name.ends_with('/')) link.name.pop_back();
  by_name_[link.name] = links_.size();  // unpacking keeps the last one
  links_.push_back(std::move(link));
}

std::optional<std::string> ArchiveLinks::resolved(std::string_view path) const {
  constexpr int kMostLinks = 40;  // as in Linux
  int num_links = 0;
  std::string done, left(path);
  while (!left.empty()) {
    const std::size_t end = std::min(left.find('/'), left.size());
    const std::string part = left.substr(0, end);
    left.erase(0, std::min(end + 1, left.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (done.empty()) return std::nullopt;
      const std::size_t parent = done.rfind('/');
      done.erase(parent == std::string::npos ? 0 : parent);
      continue;
    }
    const std::string here = done.empty() ? part : done + "/" + part;
    const auto found = by_name_.find(here);
    if (found == by_name_.end()) {
      done = here;
      continue;
    }
    const Link& link = links_[found->second];
    if (link.target.starts_with('/') || ++num_links > kMostLinks) return std::nullopt;
    left = link.target + "/" + left;
    if (link.is_hard) done.clear();
  }
  return done;
}

}  // namespace kiln
