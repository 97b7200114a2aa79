// Archives as the folders that they would unpack to, and the label files (.cls) of archives and
// folders.
#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/label_list.h"
#include "data/dataset/listing.h"

namespace kiln {
namespace {

constexpr int kMaxLinks = 40;                // one after the other, as in Linux
constexpr std::size_t kMaxPathBytes = 4096;  // likewise
constexpr std::size_t kWorkOfANode = 64;

// The names in an archive with links, which are followed as a file system would.
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

    bool is_below(const Node& folder) const {
      const Node* above = parent;
      while (above != nullptr && above != &folder) above = above->parent;
      return above != nullptr;
    }
  };

  void add(std::string_view name, const ArchiveMember& member) { node_of(name).member = member; }

  // nullptr: the same link is there already. `link` must outlive the tree. Throws ArchiveFault if
  // there is one of this name with another target.
  const Node* add(const Link& link) {
    Node& node = node_of(link.name);
    if (node.link == nullptr) {
      node.link = &link;
      return &node;
    }
    if (node.link->target != link.target || node.link->is_hard != link.is_hard)
      throw ArchiveFault(quoted_beginning(link.name) + " appears in it twice, as links to " +
                         quoted_beginning(node.link->target) + " and " +
                         quoted_beginning(link.target));
    return nullptr;
  }

  // What a link leads to: a file or a folder, not another link. A symbolic link's target is
  // relative to the link's folder, a hard link's to the archive. Throws as spend() does.
  struct Target {
    const Node* node = nullptr;  // nullptr: nothing, or only a circle of links
    bool is_outside = false;     // of the archive
  };
  Target target_of(const Node& link) {
    int num_links = 0;
    std::vector<std::string_view> parts;  // that are still to go, the next one last
    const Node* here = &link;
    while (true) {
      if (here->link != nullptr) {
        std::string_view target = here->link->target;
        if (target.starts_with('/')) return {nullptr, /*is_outside=*/true};
        if (target.empty() || target.size() > kMaxPathBytes || ++num_links > kMaxLinks) return {};
        while (!target.empty()) {
          const std::size_t slash = target.rfind('/');
          const std::string_view part = target.substr(slash + 1);
          if (!part.empty() && part != ".") parts.push_back(part);
          target = target.substr(0, slash == target.npos ? 0 : slash);
        }
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

  // Counts work against a limit: following links takes time and memory in proportion to the
  // archive. Throws ArchiveFault beyond it.
  void spend(std::size_t work) {
    spent_ += work;
    if (spent_ > kWorkOfANode * num_nodes_ + 1000)
      throw ArchiveFault("its links lead to many times the files that it has");
  }

 private:
  Node& node_of(std::string_view name) {
    Node* node = &root_;
    for (std::size_t begin = 0, end = 0; end != name.npos; begin = end + 1) {
      end = name.find('/', begin);
      const std::string_view part = name.substr(begin, end == name.npos ? end : end - begin);
      if (part.empty() || part == ".") continue;
      auto place = node->inside.find(part);
      if (place == node->inside.end()) {
        place = node->inside.emplace(part, std::make_unique<Node>()).first;
        place->second->parent = node;
        place->second->is_hidden = node->is_hidden || is_never_data(part);
        ++num_nodes_;
      }
      node = place->second.get();
    }
    return *node;
  }

  Node root_;
  std::size_t num_nodes_ = 0, spent_ = 0;
};

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
      left_out_.add(LeftOut::Reason::kHiddenImage, std::string(name));
  }

  void add_link(const ArchiveLink& link) {
    if (link.kind != LinkKind::kDevice)
      links_.push_back(
          {std::string(link.name), std::string(link.target), link.kind == LinkKind::kHard});
    else if (!has_part_that_is_never_data(link.name))
      left_out_.add(LeftOut::Reason::kDevice, std::string(link.name));
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
        left_out_.add(LeftOut::Reason::kRepeatedName, name);
    }
  }

  SampleTable take_images() { return without_repeats(std::move(images_)); }
  SampleTable take_others() { return without_repeats(std::move(others_)); }

 private:
  // Adds as `name` what the link leads to.
  void follow(const std::string& name, const ArchiveTree::Node& link) {
    const auto [target, is_outside] = tree_.target_of(link);
    if (target == nullptr || name.size() > kMaxPathBytes)
      return left_out_.add(
          is_outside ? LeftOut::Reason::kLinkOutside : LeftOut::Reason::kBrokenLink, name);
    if (target->member) return add(name, *target->member);
    if (std::ranges::count(inside_, target) != 0 || link.is_below(*target))
      return left_out_.add(LeftOut::Reason::kLoop, name);
    inside_.push_back(target);
    enter(name, *target);
    inside_.pop_back();
  }

  // Adds what is in a folder that a link leads to. Where label files decide, each folder is read
  // once, as in a walk of folders; those that have a name of their own, by that name.
  void enter(const std::string& name, const ArchiveTree::Node& folder) {
    if (has_label_files_ && (!folder.is_hidden || !entered_.insert(&folder).second))
      return left_out_.add(LeftOut::Reason::kRepeatedLink, name);
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

  bool are_equal(const ArchiveMember& a, const ArchiveMember& b) const {
    if (a.size != b.size || a.offset == b.offset) return a.size == b.size;
    std::string content, other;
    read_member(file_, a, SIZE_MAX, content);
    read_member(file_, b, SIZE_MAX, other);
    return content == other;
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
        throw ArchiveFault(quoted_beginning(name) + " appears in it twice, with two contents");
      left_out_.add(LeftOut::Reason::kRepeatedName, std::string(name));
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

// Labels the images, and leaves out those that are beside a photograph. Throws LabelFault.
void take_labels(const LabelFiles& labels, Listing& listing) {
  if (labels.empty()) return;
  std::vector<std::string_view> names;
  names.reserve(listing.images.size());
  for (const Sample& image : listing.images) names.push_back(image.file_name);
  const LabelFiles::Match match = labels.match(names);
  std::vector<bool> keep(names.size(), true);
  bool keeps_all = true;
  for (std::size_t i = 0; i < names.size(); ++i) {
    listing.images.set_label(i, std::max(match.images[i], -1));
    if (match.images[i] != LabelFiles::kBesidePhotograph) continue;
    listing.left_out.add(LeftOut::Reason::kBesidePhotograph, std::string(names[i]));
    keep[i] = keeps_all = false;
  }
  for (const std::string& name : match.spare)
    listing.left_out.add(LeftOut::Reason::kSpareLabel, name);
  if (!keeps_all) listing.images = listing.images.only(keep);
  for (const std::string& label : labels.labels()) listing.labels.push_back({.text = label});
}

std::string_view folder_of(std::string_view name) {
  return name.substr(0, name.rfind('/') + 1);
}

// Shortens a folder, with a trailing slash, to the part that it shares with another.
void shorten_to_shared(std::string& shared, std::string_view folder) {
  const auto end = std::mismatch(shared.begin(), shared.end(), folder.begin(), folder.end());
  shared.erase(end.first, shared.end());
  shared.erase(shared.rfind('/') + 1);
}

// Lists an archive, which is relative to the root, or empty, without labels.
Listing list_archive(const DatasetContext& context, const std::string& archive) {
  OpenPacked open = open_packed(context, archive, kArchiveKind);
  Listing listing = with_archive_named(context, archive, kArchiveKind, [&] {
    return list_open_archive(std::move(open.file), !context.contents.empty());
  });
  if (open.is_unpacked)
    listing.notes.push_back(unpacked_note(context, archive, listing.file) +
                            "; uncompressed tars and 'kiln pack' shards need no space)");
  return listing;
}

// take_labels() from the label files among `others`, which is then empty.
void label_images(const DatasetContext& context, const std::string& archive, Listing& listing) {
  // Whether it is the kClassesName of the folder that holds all images.
  const auto is_for_all = [&](std::string_view name) {
    const std::string_view folder = folder_of(name);
    return name.substr(folder.size()) == kClassesName &&
           std::all_of(listing.images.begin(), listing.images.end(),
                       [&](const Sample& image) { return image.file_name.starts_with(folder); });
  };
  // As shards have it, or any text.
  const auto is_of_one_image = [](std::string_view name) {
    return has_extension(name, ".json") || has_extension(name, ".txt");
  };
  const SampleTable others = std::exchange(listing.others, {});
  LabelFiles labels;
  std::string text;
  std::unordered_set<std::string_view> unread;
  with_archive_named(context, archive, kArchiveKind, [&] {
    for (std::size_t i = 0; i < others.size(); ++i) {
      const std::string_view name = others.file_name(i);
      if (is_label_file(name)) {
        read_member(listing.file, *others.member(i), 2 * kMaxLabelBytes, text);
        labels.add(name, text);
      } else if (is_for_all(name)) {
        read_member(listing.file, *others.member(i), kMaxClassesBytes, text);
        listing.classes = class_lines(
            text, quoted_path(path_of_archive(context, archive)) + ", " + quoted_beginning(name),
            context);
      } else if (is_label_list(name) && !is_of_one_image(name)) {
        listing.left_out.add(LeftOut::Reason::kListInside, std::string(name));
      } else {
        listing.left_out.add_file(name);
        unread.insert(name);
      }
    }
    listing.unread_labels = names_of_unread_labels(
        listing.images, "", [&](const std::string& name) { return unread.contains(name); });
    take_labels(labels, listing);
  });
}

// Assigns labels and an order to the images of all archives.
class Assembly {
 public:
  Assembly(const DatasetContext& context, std::vector<Listing> listings,
           std::vector<std::string> names, Dataset& set)
      : context_(context), listings_(std::move(listings)), names_(std::move(names)), set_(set) {}

  void run() {
    if (std::ranges::any_of(listings_, [](auto& listing) { return !listing.labels.empty(); })) {
      read_given_names(context_, set_);
      for (std::size_t a = 0; a < listings_.size(); ++a) take_own_names(a);
      return join_listings(context_, names_, std::move(listings_), set_);
    }
    label_by_folders();
    for (std::string& note : left_out_.notes()) set_.notes.push_back(std::move(note));
  }

  const LeftOut& left_out() const { return left_out_; }

 private:
  // The names that an archive gives itself are those of all, unless --classes gives them.
  void take_own_names(std::size_t archive) {
    FoundLabels& found = set_.found;
    std::vector<std::string>& names = listings_[archive].classes;
    if (names.empty() || found.named_by.starts_with("--classes")) return;
    const std::string named_by = std::string(kClassesName) + " in " +
                                 quoted_path(path_of_archive(context_, names_[archive]).filename());
    if (found.named_by.empty()) {
      found.named_by = named_by;
      found.names = std::move(names);
    } else if (found.names != names) {
      context_.fail(found.named_by + " and " + named_by +
                    " have different lines. Give --classes FILE, or remove one of them.");
    }
  }

  struct Place {
    std::string_view folder, name;  // relative to common_base(), or to the folder of a set
    std::uint32_t archive = 0, image = 0;
    ListedSet set = ListedSet::kNone;
    auto operator<=>(const Place&) const = default;
  };

  template <typename Visit>
  void for_each_image(Visit&& visit) const {
    for (std::uint32_t a = 0; a < listings_.size(); ++a)
      for (std::uint32_t i = 0; i < listings_[a].images.size(); ++i)
        visit(a, i, listings_[a].images.file_name(i));
  }

  // The path above the class folders that all images share, with a trailing slash; may be empty.
  std::string common_base() const {
    std::string common;
    bool is_first = true;
    for_each_image([&](std::uint32_t, std::uint32_t, std::string_view name) {
      if (is_first) common = folder_of(name);
      is_first = false;
      shorten_to_shared(common, folder_of(name));
    });
    // A folder that has images, and folders with images of no more than one name, is a class.
    std::set<std::string_view> inside;
    for_each_image([&](std::uint32_t, std::uint32_t, std::string_view name) {
      name.remove_prefix(common.size());
      if (inside.size() < 3) inside.insert(name.substr(0, name.find('/') + 1));
    });
    if (inside.contains("") && inside.size() < 3 && !common.empty())
      common.erase(common.rfind('/', common.size() - 2) + 1);
    return common;
  }

  // Whether the folders in `base` are those of sets, of training and of validation images, each
  // with the folders of the classes, as --data-path FOLDER has them.
  bool has_sets(const std::string& base) const {
    std::set<std::optional<ListedSet>> sets;
    bool has_classes = true;
    for_each_image([&](std::uint32_t, std::uint32_t, std::string_view name) {
      name.remove_prefix(base.size());
      const std::size_t slash = name.find('/');
      sets.insert(listed_set(name.substr(0, slash)));
      has_classes = has_classes && slash != name.npos && name.find('/', slash + 1) != name.npos;
    });
    return has_classes && !sets.contains(std::nullopt) && sets.contains(ListedSet::kTrain) &&
           sets.contains(ListedSet::kValid);
  }

  // Whether the images of a set are read; the others are counted.
  bool is_wanted(ListedSet set) {
    const std::vector<std::string>& wanted = context_.records.list_sets;
    if (wanted.empty() || set == ListedSet::kNone || std::ranges::count(wanted, set_name(set)) > 0)
      return true;
    ++num_of_other_sets_;
    return false;
  }

  void label_by_folders() {
    const std::string base = common_base();
    const bool are_sets = has_sets(base);
    std::vector<Place> places;
    LeftOut outside;  // of the class folders
    for_each_image([&](std::uint32_t archive, std::uint32_t image, std::string_view name) {
      name.remove_prefix(base.size());
      ListedSet set = ListedSet::kNone;
      if (are_sets) {
        set = *listed_set(name.substr(0, name.find('/')));
        name.remove_prefix(name.find('/') + 1);
        if (!is_wanted(set)) return;
      }
      const std::size_t slash = name.find('/');
      const bool is_deep = slash != name.npos && name.find('/', slash + 1) != name.npos;
      using Reason = LeftOut::Reason;
      if (is_deep || slash == name.npos)
        outside.add(is_deep ? Reason::kDeepImage : Reason::kRootImage, base + std::string(name));
      else
        places.push_back({name.substr(0, slash), name.substr(slash + 1), archive, image, set});
    });
    std::sort(places.begin(), places.end());
    for (const Place& place : places) {
      if (set_.classes.empty() || set_.classes.back() != place.folder) {
        if (!is_utf8(place.folder))
          context_.fail("the name of the class folder '" + printable(place.folder.substr(0, 200)) +
                        "' is not UTF-8. Rename it, and create the archive again.");
        set_.classes.emplace_back(place.folder);
      }
      const int label = static_cast<int>(set_.classes.size()) - 1;
      if (!context_.every_image)
        add_listed(names_, place.archive, listings_[place.archive], place.image,
                   {.file_name = {}, .label = label, .set = place.set}, set_);
    }
    if (num_of_other_sets_ > 0)
      set_.notes.push_back("left out: " + plural(num_of_other_sets_, "image", "images") +
                           " of other sets");
    const auto unread = std::ranges::max_element(listings_, {}, &Listing::unread_labels);
    tell_unread_labels(context_, unread->unread_labels, set_);
    const bool are_all = places.empty() || context_.every_image;
    if (are_all) add_every_image(base, are_sets);
    left_out_ = close_listings(names_, listings_, set_);
    if (!are_all) left_out_.add_all(outside, "");
  }

  void add_every_image(const std::string& base, bool are_sets) {
    for_each_image([&](std::uint32_t archive, std::uint32_t image, std::string_view name) {
      name.remove_prefix(base.size());
      if (are_sets) {
        if (!is_wanted(*listed_set(name.substr(0, name.find('/'))))) return;
        name.remove_prefix(name.find('/') + 1);
      }
      const std::string_view folder = name.substr(0, std::min(name.find('/'), name.size()));
      const bool is_in_class = std::count(name.begin(), name.end(), '/') == 1;
      const auto found = std::lower_bound(set_.classes.begin(), set_.classes.end(), folder);
      const int label =
          is_in_class ? static_cast<int>(std::distance(set_.classes.begin(), found)) : -1;
      add_listed(names_, archive, listings_[archive], image, {.file_name = {}, .label = label},
                 set_);
    });
  }

  const DatasetContext& context_;
  std::vector<Listing> listings_;
  const std::vector<std::string> names_;
  Dataset& set_;
  LeftOut left_out_;
  long long num_of_other_sets_ = 0;
};

// The folders of an archive that hold all of its images, from the outermost.
std::vector<std::string> folders_of_all(const Listing& listing) {
  const SampleTable& files = listing.images.empty() ? listing.others : listing.images;
  std::string shared(files.empty() ? "" : folder_of(files.file_name(0)));
  for (const Sample& file : files) shorten_to_shared(shared, folder_of(file.file_name));
  std::vector<std::string> folders = {""};
  for (std::size_t end = shared.find('/'); end != shared.npos; end = shared.find('/', end + 1))
    folders.push_back(shared.substr(0, end + 1));
  return folders;
}

bool may_have_list(const SampleTable& others, std::string_view folder) {
  return std::any_of(others.begin(), others.end(), [&](const Sample& file) {
    const std::string_view name = file.file_name.substr(folder_of(file.file_name).size());
    return folder_of(file.file_name) == folder &&
           (name == kMetaName || name == kListName || has_extension(name, ".json"));
  });
}

// Reads an ImageDirectory or COCO folder that is the archive, or holds all of its images.
std::optional<Dataset> read_listed_archive(const DatasetContext& context,
                                           const std::string& archive, Listing& listing) {
  return with_archive_named(context, archive, kArchiveKind, [&]() -> std::optional<Dataset> {
    for (const std::string& folder : folders_of_all(listing)) {
      if (!may_have_list(listing.others, folder)) continue;
      const ArchiveFiles files(listing, folder, archive);
      std::optional<Dataset> set = is_image_directory(files)
                                       ? read_image_directory(context, files)
                                       : read_coco(context, files, listing.notes);
      if (!set) continue;
      if (!set->list_name.empty()) set->list_name.insert(0, folder);
      return set;
    }
    return std::nullopt;
  });
}

}  // namespace

std::string fault_of_class_line(std::string_view name, bool is_first) {
  if (name.find('\n') != name.npos) return "contains an end of line";
  if (name.ends_with('\r')) return "ends with a carriage return";
  if (is_first && without_byte_order_mark(name) != name) return "begins with a byte-order mark";
  return {};
}

Listing list_open_archive(OpenFile file, bool may_go_on) {
  constexpr std::size_t kMaxTargetBytes = kMaxPathBytes + 1;
  if (file.size() == 0) throw ArchiveFault("it is empty");
  Listing listing;
  listing.file = std::move(file);
  Members members(listing.file, listing.left_out);
  const MemberVisit visit = [&](std::string_view name, const ArchiveMember& member) {
    members.add(name, member);
  };
  const std::string first = listing.file.bytes_at(0, 4);
  if (first == "PK\x03\x04" || first == "PK\x05\x06") {
    std::string target;
    list_zip(listing.file, visit, [&](std::string_view name, const ArchiveMember& member) {
      read_member(listing.file, member, kMaxTargetBytes, target);
      members.add_link({.name = name, .target = target});
    });
  } else if (is_tar(listing.file)) {
    list_tar(
        listing.file, visit, [&](const ArchiveLink& link) { members.add_link(link); }, may_go_on);
  } else {
    throw ArchiveFault("it is neither a zip, a tar, nor a tar compressed with gzip, bzip2 or zstd");
  }
  members.follow_links();
  listing.images = members.take_images();
  listing.others = members.take_others();
  return listing;
}

Dataset read_label_files(const DatasetContext& context, const LabelFiles& labels, Listing listing) {
  take_labels(labels, listing);
  Dataset set;
  set.kind = Dataset::Kind::kClassFolders;
  set.root = context.root;
  std::vector<Listing> listings;
  listings.push_back(std::move(listing));
  Assembly(context, std::move(listings), {""}, set).run();
  return set;
}

Dataset read_archives(const DatasetContext& context, const std::vector<std::string>& archives) {
  Dataset set = begin_packed(context, Dataset::Kind::kArchives, archives);
  std::vector<Listing> listings(archives.size());
  std::vector<std::optional<Dataset>> listed(archives.size());
  in_parallel(archives.size(), kScanThreads, [&](std::size_t i) {
    listings[i] = list_archive(context, archives[i]);
    listed[i] = read_listed_archive(context, archives[i], listings[i]);
    if (!listed[i]) label_images(context, archives[i], listings[i]);
  });
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (!listed[i]) continue;
    std::ranges::move(listings[i].notes, std::back_inserter(set.notes));
    if (archives.size() > 1)  // lists of several would give one name to different images
      context.fail("the archive '" + archives[i] + "' holds its own list of images (" +
                   describe(listed[i]->kind) +
                   "), which cannot be read together with other archives. Give this archive "
                   "alone, or pack the images into shards ('kiln pack').");
    std::ranges::move(listed[i]->notes, std::back_inserter(set.notes));
    listed[i]->notes = std::move(set.notes);
    return *std::move(listed[i]);
  }
  Assembly assembly(context, std::move(listings), archives, set);
  assembly.run();
  if (set.samples.empty())
    context.fail(assembly.left_out().instead_of_images() +
                 ". Give an archive with one folder of images per class; " + image_names_advice());
  take_source(context, set);
  return set;
}

}  // namespace kiln
