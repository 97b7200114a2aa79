#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "data/archive/archive.h"
#include "data/dataset/archive_files.h"
#include "data/dataset/found_labels.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

// The names in an archive that has links, which are followed as a file system would after unpacking
// it.
class ArchiveTree {
 public:
  struct Link {
    std::string name, target;
    bool is_hard = false;
  };
  struct Node {
    Node* parent = nullptr;  // nullptr: the archive itself
    std::map<std::string, std::unique_ptr<Node>, std::less<>> inside;
    std::optional<ArchiveMember> member;
    const Link* link = nullptr;
    bool is_hidden = false;  // it, or a folder that it is in, is never data
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

constexpr int kMaxLinks = 40;                // one after the other, as in Linux
constexpr std::size_t kMaxPathBytes = 4096;  // likewise
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
      place->second->is_hidden = node->is_hidden || is_never_data(place->first);
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
      if (target.empty() || target.size() > kMaxPathBytes || ++num_links > kMaxLinks) return {};
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

namespace fs = std::filesystem;

constexpr std::size_t kMaxTargetBytes = 4097;  // one more than a path may have
constexpr std::size_t kMaxNameBytes = 4096;

std::string shown(std::string_view name) {
  return "'" + std::string(name.substr(0, 200)) + "'";
}

// The names in an archive, as the folder that unpacking it gives would list them: without what is
// never data, and with links followed.
class Members {
 public:
  Members(const OpenFile& file, LeftOut& left_out) : file_(file), left_out_(left_out) {}

  void add(std::string_view name, const ArchiveMember& member) {
    if (!has_part_that_is_never_data(name))
      return (has_image_extension(name) ? images_ : others_).add(name, -1, &member);
    hidden_.add(name, -1, &member);
    const std::string_view base = name.substr(name.rfind('/') + 1);
    if (has_image_extension(name) && base.starts_with('.') && !base.starts_with("._"))
      left_out_.add(LeftOut::Kind::kHiddenImage, std::string(name));
  }

  void add_link(const ArchiveLink& link) {
    if (link.kind != ArchiveLink::Kind::kDevice)
      links_.push_back({std::string(link.name), std::string(link.target),
                        link.kind == ArchiveLink::Kind::kHard});
    else if (!has_part_that_is_never_data(link.name))
      left_out_.add(LeftOut::Kind::kDevice, std::string(link.name));
  }

  // Adds what the links lead to. Call it after the last member.
  void follow_links() {
    if (links_.empty()) return;
    for (const SampleTable* table : {&images_, &others_, &hidden_})
      for (std::size_t i = 0; i < table->size(); ++i)
        tree_.add(table->file_name(i), *table->member(i));
    std::vector<const ArchiveTree::Node*> nodes;
    for (const ArchiveTree::Link& link : links_) {
      has_label_files_ = has_label_files_ || is_label_file(link.name);
      nodes.push_back(tree_.add(link));
    }
    for (std::size_t i = 0; i < others_.size() && !has_label_files_; ++i)
      has_label_files_ = is_label_file(others_.file_name(i));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::string& name = links_[i].name;
      if (has_part_that_is_never_data(name)) continue;
      if (nodes[i] != nullptr)
        follow(name, *nodes[i]);
      else
        left_out_.add(LeftOut::Kind::kRepeatedName, name);
    }
  }

  SampleTable take_images() { return without_repeats(std::move(images_)); }
  SampleTable take_others() { return without_repeats(std::move(others_)); }

 private:
  // Adds as `name` what the link leads to.
  void follow(const std::string& name, const ArchiveTree::Node& link) {
    const auto [target, is_outside] = tree_.target_of(link);
    if (target == nullptr || name.size() > kMaxNameBytes)
      return left_out_.add(is_outside ? LeftOut::Kind::kLinkOutside : LeftOut::Kind::kBrokenLink,
                           name);
    if (target->member) return add(name, *target->member);
    if (std::ranges::count(inside_, target) != 0 || link.is_below(*target))
      return left_out_.add(LeftOut::Kind::kLoop, name);
    inside_.push_back(target);
    enter(name, *target);
    inside_.pop_back();
  }

  // Adds what is in a folder that a link leads to. Where label files decide, each folder is read
  // once, as in a walk of folders; those that have a name of their own, by that name.
  void enter(const std::string& name, const ArchiveTree::Node& folder) {
    if (has_label_files_ && (!folder.is_hidden || !entered_.insert(&folder).second))
      return left_out_.add(LeftOut::Kind::kRepeatedLink, name);
    for (const auto& [part, node] : folder.inside) {
      const std::string inner = name + "/" + part;
      tree_.spend(1 + inner.size() / 64);
      if (is_never_data(part)) continue;
      if (node->link != nullptr)
        follow(inner, *node);
      else if (node->member)
        add(inner, *node->member);
      else
        enter(inner, *node);
    }
  }

  std::string content(const ArchiveMember& member) const {
    std::string bytes;
    read_member(file_, member, SIZE_MAX, bytes);
    return bytes;
  }

  bool are_equal(const ArchiveMember& a, const ArchiveMember& b) const {
    return a.size == b.size && (a.offset == b.offset || content(a) == content(b));
  }

  // Of files with one name, unpacking keeps the last one: all of them must have its content.
  SampleTable without_repeats(SampleTable table) {
    std::vector<std::uint32_t> order(table.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return table.file_name(a) < table.file_name(b);
    });
    std::vector<bool> keep(table.size(), true);
    std::size_t num_kept = table.size();
    for (std::size_t i = 1; i < order.size(); ++i) {
      const std::string_view name = table.file_name(order[i]);
      if (table.file_name(order[i - 1]) != name) continue;
      if (!are_equal(*table.member(order[i - 1]), *table.member(order[i])))
        throw ArchiveFault(shown(name) + " appears in it twice, with two contents");
      left_out_.add(LeftOut::Kind::kRepeatedName, std::string(name));
      keep[order[i]] = false;
      --num_kept;
    }
    return num_kept == table.size() ? std::move(table) : table.only(keep);
  }

  const OpenFile& file_;
  LeftOut& left_out_;
  SampleTable images_, others_;
  SampleTable hidden_;  // never data, but links may lead to them (git-annex, caches of data)
  std::deque<ArchiveTree::Link> links_;
  ArchiveTree tree_;
  bool has_label_files_ = false;
  std::vector<const ArchiveTree::Node*> inside_;  // the folders that are being followed
  std::set<const ArchiveTree::Node*> entered_;
};

bool is_zip(const OpenFile& file) {
  const std::string first = file.bytes_at(0, 4);
  return first == "PK\x03\x04" || first == "PK\x05\x06";
}

void read_members(const OpenFile& file, bool may_go_on, Members& members) {
  if (file.size() == 0) throw ArchiveFault("it is empty");
  const MemberVisit visit = [&](std::string_view name, const ArchiveMember& member) {
    members.add(name, member);
  };
  if (is_zip(file)) {
    std::string target;
    list_zip(file, visit, [&](std::string_view name, const ArchiveMember& member) {
      read_member(file, member, kMaxTargetBytes, target);
      members.add_link({.name = name, .target = target});
    });
  } else if (is_tar(file)) {
    list_tar(
        file, visit, [&](const ArchiveLink& link) { members.add_link(link); }, may_go_on);
  } else {
    throw ArchiveFault("it is neither a zip, a tar, nor a tar compressed with gzip, bzip2 or zstd");
  }
  members.follow_links();
}

}  // namespace

void take_labels(const LabelFiles& labels, ArchiveListing& listing) {
  if (labels.empty()) return;
  std::vector<std::string_view> names;
  names.reserve(listing.images.size());
  for (const Sample& image : listing.images) names.push_back(image.file_name);
  const LabelFiles::Match match = labels.match(names);
  std::vector<bool> keep(names.size(), true);
  bool keeps_all = true;
  for (std::size_t i = 0; i < names.size(); ++i) {
    listing.images.set_label(i, match.images[i].label);
    if (match.images[i].kind != ImageLabel::Kind::kBesidePhotograph) continue;
    listing.left_out.add(LeftOut::Kind::kBesidePhotograph, std::string(names[i]));
    keep[i] = keeps_all = false;
  }
  for (const std::string& name : match.spare)
    listing.left_out.add(LeftOut::Kind::kSpareLabel, name);
  if (!keeps_all) listing.images = listing.images.only(keep);
  listing.labels = labels.labels();
}

ArchiveListing list_open_archive(OpenFile file, bool may_go_on) {
  ArchiveListing listing;
  listing.file = std::move(file);
  Members members(listing.file, listing.left_out);
  read_members(listing.file, may_go_on, members);
  listing.images = members.take_images();
  listing.others = members.take_others();
  return listing;
}

ArchiveListing list_archive(const DatasetContext& context, const std::string& archive) {
  OpenPacked open = open_packed(context, archive, kArchiveKind);
  ArchiveListing listing = with_archive_named(context, archive, kArchiveKind, [&] {
    return list_open_archive(std::move(open.file), !context.contents.empty());
  });
  if (open.is_unpacked)
    listing.notes.push_back(unpacked_note(context, archive, listing.file) +
                            "; uncompressed tars and 'kiln pack' shards need no space)");
  return listing;
}

void label_images(const DatasetContext& context, const std::string& archive,
                  ArchiveListing& listing) {
  // Whether it is the kClassesName of the folder that holds all images.
  const auto is_for_all = [](std::string_view name, const SampleTable& images) {
    if (name.substr(name.rfind('/') + 1) != kClassesName) return false;
    const std::string_view folder = name.substr(0, name.rfind('/') + 1);
    return std::all_of(images.begin(), images.end(), [&](const Sample& image) {
      return std::string_view(image.file_name).starts_with(folder);
    });
  };
  const SampleTable others = std::exchange(listing.others, {});
  LabelFiles labels;
  std::string text;
  with_archive_named(context, archive, kArchiveKind, [&] {
    for (std::size_t i = 0; i < others.size(); ++i) {
      const std::string_view name = others.file_name(i);
      if (is_label_file(name)) {
        read_member(listing.file, *others.member(i), 2 * kMaxLabelBytes, text);
        labels.add(name, text);
      } else if (is_for_all(name, listing.images)) {
        read_member(listing.file, *others.member(i), kMaxClassesBytes, text);
        listing.classes = class_lines(
            text, quoted_path(path_of_archive(context, archive)) + ", " + shown(name), context);
      } else {
        listing.left_out.other_files.add(name);
      }
    }
    take_labels(labels, listing);
  });
}

}  // namespace kiln
