// Archives as the folders that they would unpack to, and the label files (.cls) of archives and
// folders.
#include <algorithm>
#include <deque>
#include <functional>
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
#include "data/dataset/listing.h"

namespace kiln {
namespace {

constexpr int kMaxLinks = 40;  // one after the other, as in Linux
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

  // The first link of a name stays. `link` must outlive the tree. Throws ArchiveFault if there is
  // one of this name with another target.
  void add(const Link& link) {
    Node& node = node_of(link.name);
    if (node.link == nullptr) node.link = &link;
    if (node.link->target != link.target || node.link->is_hard != link.is_hard)
      throw ArchiveFault(quoted_beginning(link.name) + " appears in it twice, as links to " +
                         quoted_beginning(node.link->target) + " and " +
                         quoted_beginning(link.target));
  }

  // Adds it if it is not there.
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
  Node root_;
  std::size_t num_nodes_ = 0, spent_ = 0;
};

std::vector<std::string_view> names_of(const SampleTable& files) {
  return list_from(files, &Sample::file_name);
}

// The names in an archive, as the folder that unpacking it gives would list them: without what is
// never data, and with links followed.
class Members {
 public:
  // `listing` has the open archive, and gets its files.
  explicit Members(Listing& listing) : listing_(listing) {}

  void add(std::string_view name, const ArchiveMember& member) {
    const bool is_image = has_image_extension(name);
    if (!has_part_that_is_never_data(name))
      return (is_image ? listing_.set.samples : listing_.others).add(name, -1, &member);
    hidden_.add(name, -1, &member);
    const std::string_view base = name.substr(name.rfind('/') + 1);
    if (is_image && base.starts_with('.') && !base.starts_with("._"))
      listing_.left_out.add(LeftOut::Reason::kHiddenImage, std::string(name));
  }

  void add_link(const ArchiveLink& link) {
    if (link.kind != LinkKind::kDevice)
      links_.push_back(
          {std::string(link.name), std::string(link.target), link.kind == LinkKind::kHard});
    else if (!has_part_that_is_never_data(link.name))
      listing_.left_out.add(LeftOut::Reason::kDevice, std::string(link.name));
  }

  // Adds what the links lead to, and removes repeated names. Call it after the last member.
  void finish() {
    if (!links_.empty()) follow_links();
    remove_repeats(listing_.set.samples);
    remove_repeats(listing_.others);
  }

 private:
  void follow_links() {
    for (const SampleTable* table : {&listing_.set.samples, &listing_.others, &hidden_})
      for (std::size_t i = 0; i < table->size(); ++i)
        tree_.add(table->file_name(i), *table->member(i));
    for (const ArchiveTree::Link& link : links_) tree_.add(link);
    has_label_files_ = std::ranges::any_of(links_, is_label_file, &ArchiveTree::Link::name) ||
                       std::ranges::any_of(names_of(listing_.others), is_label_file);
    for (const ArchiveTree::Link& link : links_) {
      if (has_part_that_is_never_data(link.name)) continue;
      if (const ArchiveTree::Node& node = tree_.node_of(link.name); node.link == &link)
        follow(link.name, node);
      else
        listing_.left_out.add(LeftOut::Reason::kRepeatedName, link.name);
    }
  }

  // Adds as `name` what the link leads to.
  void follow(const std::string& name, const ArchiveTree::Node& link) {
    const auto [target, is_outside] = tree_.target_of(link);
    if (target == nullptr || name.size() > kMaxPathBytes)
      return listing_.left_out.add(
          is_outside ? LeftOut::Reason::kLinkOutside : LeftOut::Reason::kBrokenLink, name);
    if (target->member) return add(name, *target->member);
    if (std::ranges::count(inside_, target) != 0 || link.is_below(*target))
      return listing_.left_out.add(LeftOut::Reason::kLoop, name);
    inside_.push_back(target);
    enter(name, *target);
    inside_.pop_back();
  }

  // Adds what is in a folder that a link leads to. Where label files decide, each folder is read
  // once, as in a walk of folders; those that have a name of their own, by that name.
  void enter(const std::string& name, const ArchiveTree::Node& folder) {
    if (has_label_files_ && (!folder.is_hidden || !entered_.insert(&folder).second))
      return listing_.left_out.add(LeftOut::Reason::kRepeatedLink, name);
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
    const OpenFile& file = listing_.set.archives.front().file;
    read_member(file, a, SIZE_MAX, content);
    read_member(file, b, SIZE_MAX, other);
    return content == other;
  }

  // Of files with one name, unpacking keeps the last one: all of them must have its content.
  void remove_repeats(SampleTable& table) {
    std::vector<std::uint32_t> order(table.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return table.file_name(i); });
    std::vector<bool> keep(table.size(), true);
    for (std::size_t i = 1; i < order.size(); ++i) {
      const std::string_view name = table.file_name(order[i]);
      if (table.file_name(order[i - 1]) != name) continue;
      if (!are_equal(*table.member(order[i - 1]), *table.member(order[i])))
        throw ArchiveFault(quoted_beginning(name) + " appears in it twice, with two contents");
      listing_.left_out.add(LeftOut::Reason::kRepeatedName, std::string(name));
      keep[order[i]] = false;
    }
    if (std::ranges::count(keep, false) > 0) table = table.only(keep);
  }

  Listing& listing_;
  SampleTable hidden_;  // never data, but links may lead to them (git-annex, caches of data)
  std::deque<ArchiveTree::Link> links_;
  ArchiveTree tree_;
  bool has_label_files_ = false;
  std::vector<const ArchiveTree::Node*> inside_;  // the folders that are being followed
  std::set<const ArchiveTree::Node*> entered_;
};

std::string_view folder_of(std::string_view name) {
  return name.substr(0, name.rfind('/') + 1);
}

// The deepest folder with all files, with a trailing slash; may be empty.
std::string shared_folder(const std::vector<std::string_view>& names) {
  std::string shared(names.empty() ? "" : folder_of(names.front()));
  for (const std::string_view name : names) {
    const auto end = std::mismatch(shared.begin(), shared.end(), name.begin(), name.end());
    shared.erase(end.first, shared.end());
    shared.erase(shared.rfind('/') + 1);
  }
  return shared;
}

// Lists an archive, which is relative to the root, or empty, without labels.
Listing list_archive(const DatasetContext& context, const std::string& archive) {
  OpenPacked open = open_packed(context, archive, kArchiveKind);
  Listing listing = with_archive_named(context, archive, kArchiveKind, [&] {
    return list_open_archive({archive, std::move(open.file)}, !context.contents.empty());
  });
  if (open.is_unpacked)
    listing.set.notes.push_back(unpacked_note(context, archive, listing.set.archives.front().file) +
                                "; uncompressed tars and 'kiln pack' shards need no space)");
  return listing;
}

// Labels the images from the label files among the others, of which none is left then.
void label_images(const DatasetContext& context, const std::string& archive, Listing& listing) {
  const SampleTable& images = listing.set.samples;
  const OpenFile& file = listing.set.archives.front().file;
  // Whether it is the kClassesName of the folder that holds all images.
  const auto is_for_all = [&](std::string_view name) {
    const std::string_view folder = folder_of(name);
    return name.substr(folder.size()) == kClassesName &&
           std::ranges::all_of(
               images, [&](const Sample& image) { return image.file_name.starts_with(folder); });
  };
  const SampleTable others = std::exchange(listing.others, {});
  LabelFiles labels;
  std::string text;
  std::unordered_set<std::string_view> unread;
  with_archive_named(context, archive, kArchiveKind, [&] {
    for (std::size_t i = 0; i < others.size(); ++i) {
      const std::string_view name = others.file_name(i);
      if (is_label_file(name)) {
        read_member(file, *others.member(i), 2 * kMaxLabelBytes, text);
        labels.add(name, text);
      } else if (is_for_all(name)) {
        read_member(file, *others.member(i), kMaxClassesBytes, text);
        listing.classes = class_lines(
            text, quoted_path(path_of_archive(context, archive)) + ", " + quoted_beginning(name),
            context);
      } else if (is_label_list(name) && !has_extension(name, ".json") &&
                 !has_extension(name, ".txt")) {  // of one image, as shards have it, or any text
        listing.left_out.add(LeftOut::Reason::kListInside, std::string(name));
      } else {
        listing.left_out.add_file(name);
        unread.insert(name);
      }
    }
    listing.unread_labels = names_of_unread_labels(
        images, "", [&](const std::string& name) { return unread.contains(name); });
    label_by_files(labels, listing);
  });
}

// The names that an archive gives itself are those of all, unless --classes gives them.
void add_own_names(const DatasetContext& context, const std::string& archive,
                   std::vector<std::string>& names, FoundLabels& given) {
  if (names.empty() || given.named_by.starts_with("--classes")) return;
  const std::string named_by = std::string(kClassesName) + " in " +
                               quoted_path(path_of_archive(context, archive).filename());
  if (given.named_by.empty()) {
    given.named_by = named_by;
    given.names = std::move(names);
  } else if (given.names != names) {
    context.fail(given.named_by + " and " + named_by +
                 " have different lines. Give --classes FILE, or remove one of them.");
  }
}

// An image in a class folder.
struct Place {
  std::string_view folder, name;
  std::uint32_t image = 0;
  ListedSet set = ListedSet::kNone;
  auto operator<=>(const Place&) const = default;
};

// The path above the class folders that all images share, with a trailing slash; may be empty.
std::string common_base(const std::vector<std::string_view>& names) {
  std::string common = shared_folder(names);
  // A folder that has images, and folders with images of no more than one name, is a class.
  std::set<std::string_view> inside;
  for (std::string_view name : names) {
    name.remove_prefix(common.size());
    if (inside.size() < 3) inside.insert(name.substr(0, name.find('/') + 1));
  }
  if (inside.contains("") && inside.size() < 3 && !common.empty())
    common.erase(common.rfind('/', common.size() - 2) + 1);
  return common;
}

// Whether the folders are those of sets, of training and of validation images, each with the
// folders of the classes, as --data-path FOLDER has them.
bool has_sets(const std::vector<std::string_view>& names) {
  std::set<std::optional<ListedSet>> sets;
  for (const std::string_view name : names) {
    if (std::ranges::count(name, '/') < 2) return false;
    sets.insert(listed_set(name.substr(0, name.find('/'))));
  }
  return !sets.contains(std::nullopt) && sets.contains(ListedSet::kTrain) &&
         sets.contains(ListedSet::kValid);
}

// Gives the images in class folders, which are in order, their classes.
void label_places(const DatasetContext& context, const std::vector<Place>& places, Dataset& set) {
  for (const Place& place : places) {
    if (set.classes.empty() || set.classes.back() != place.folder) {
      if (!is_utf8(place.folder))
        context.fail("the name of the class folder '" + printable(place.folder.substr(0, 200)) +
                     "' is not UTF-8. Rename it, and create the archive again.");
      set.classes.emplace_back(place.folder);
    }
    set.samples.set_label(place.image, static_cast<int>(set.classes.size()) - 1);
  }
}

// The class of an image is its folder, one level below the path that all images share; images
// without a class are left out. Without classes, or with `every_image`: every image, in the order
// of the archives, those without a class without a label.
void label_by_folders(const DatasetContext& context, Listing& listing) {
  Dataset& set = listing.set;
  std::vector<std::string> of_archives = std::exchange(set.notes, {});
  std::vector<std::string_view> names = names_of(set.samples);
  for (std::size_t i = 0; set.archives.size() > 1 && i < names.size(); ++i)
    names[i].remove_prefix(set.archives[set.samples.member(i)->archive].name.size() + 1);
  const std::string base = common_base(names);
  for (std::string_view& name : names) name.remove_prefix(base.size());
  const bool are_sets = has_sets(names);
  std::vector<Place> places;
  std::vector<std::uint32_t> images;  // of the sets that are read
  LeftOut outside;                    // of the class folders
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    std::string_view name = names[i];
    Place place;
    place.image = i;
    if (are_sets) {
      place.set = *listed_set(name.substr(0, name.find('/')));
      name.remove_prefix(name.find('/') + 1);
    }
    if (!is_wanted(context.records, place.set)) continue;
    images.push_back(i);
    const auto depth = std::ranges::count(name, '/');
    place.folder = name.substr(0, name.find('/'));
    if (depth == 1) {
      place.name = name.substr(place.folder.size() + 1);
      places.push_back(place);
    } else {
      outside.add(depth == 0 ? LeftOut::Reason::kRootImage : LeftOut::Reason::kDeepImage,
                  base + std::string(name));
    }
  }
  const bool are_all = places.empty() || context.every_image;
  std::ranges::sort(places);
  label_places(context, places, set);
  SampleTable samples;
  const auto add = [&](std::uint32_t image, ListedSet of) {
    Sample copy = set.samples[image];
    copy.id = static_cast<std::int64_t>(samples.size());
    copy.set = of;
    samples.push_back(copy, set.samples.member(image));
  };
  if (are_all)
    for (const std::uint32_t image : images) add(image, ListedSet::kNone);
  else
    for (const Place& place : places) add(place.image, place.set);
  if (!are_all) listing.left_out.add_all(outside, "");
  if (images.size() < names.size())
    set.notes.push_back(
        "left out: " + plural(std::ssize(names) - std::ssize(images), "image", "images") +
        " of other sets");
  set.samples = std::move(samples);
  report_unread_labels(context, listing.unread_labels, set);
  std::ranges::move(of_archives, std::back_inserter(set.notes));
}

bool may_have_list(const SampleTable& others, std::string_view folder) {
  return std::any_of(others.begin(), others.end(), [&](const Sample& file) {
    const std::string_view name = file.file_name.substr(folder_of(file.file_name).size());
    return folder_of(file.file_name) == folder &&
           (name == kMetaName || name == kListName || has_extension(name, ".json"));
  });
}

// Lists an ImageDirectory or COCO folder that is the archive, or holds all of its images.
std::optional<Listing> list_listed_archive(const DatasetContext& context,
                                           const std::string& archive, Listing& listing) {
  return with_archive_named(context, archive, kArchiveKind, [&]() -> std::optional<Listing> {
    const SampleTable& images = listing.set.samples;
    const std::string shared = shared_folder(names_of(images.empty() ? listing.others : images));
    for (std::size_t end = 0; end != shared.npos; end = shared.find('/', end + 1)) {
      const std::string folder = shared.substr(0, end == 0 ? 0 : end + 1);
      if (!may_have_list(listing.others, folder)) continue;
      const ListedFiles files(listing, folder);
      std::optional<Listing> listed =
          is_image_directory(files)
              ? list_image_directory(context, files)
              : list_coco(context, files, files.json_names(), listing.set.notes);
      if (!listed) continue;
      if (std::string& list = listed->set.list_name; !list.empty()) list.insert(0, folder);
      return listed;
    }
    return std::nullopt;
  });
}

}  // namespace

void label_by_files(const LabelFiles& labels, Listing& listing) {
  if (labels.empty()) return;
  SampleTable& images = listing.set.samples;
  const LabelFiles::Match match = labels.match(names_of(images));
  std::vector<bool> keep(images.size(), true);
  for (std::size_t i = 0; i < images.size(); ++i) {
    images.set_label(i, std::max(match.images[i], -1));
    keep[i] = match.images[i] != LabelFiles::kBesidePhotograph;
    if (!keep[i])
      listing.left_out.add(LeftOut::Reason::kBesidePhotograph, std::string(images.file_name(i)));
  }
  for (const std::string& name : match.spare)
    listing.left_out.add(LeftOut::Reason::kSpareLabel, name);
  if (std::ranges::count(keep, false) > 0) images = images.only(keep);
  for (const std::string& label : labels.labels())
    listing.set.found.labels.push_back({.text = label});
}

Listing list_open_archive(ImageArchive archive, bool may_go_on) {
  if (archive.file.size() == 0) throw ArchiveFault("it is empty");
  Listing listing;
  const OpenFile& file = listing.set.archives.emplace_back(std::move(archive)).file;
  Members members(listing);
  const MemberVisit visit = std::bind_front(&Members::add, &members);
  const std::string first = file.bytes_at(0, 4);
  if (first == "PK\x03\x04" || first == "PK\x05\x06") {
    std::string target;
    list_zip(file, visit, [&](std::string_view name, const ArchiveMember& member) {
      read_member(file, member, kMaxPathBytes + 1, target);
      members.add_link({.name = name, .target = target});
    });
  } else if (is_tar(file)) {
    list_tar(file, visit, std::bind_front(&Members::add_link, &members), may_go_on);
  } else {
    throw ArchiveFault("it is neither a zip, a tar, nor a tar compressed with gzip, bzip2 or zstd");
  }
  members.finish();
  return listing;
}

Listing list_archives(const DatasetContext& context, const std::vector<std::string>& archives) {
  std::vector<std::string> notes = check_packed(context, Dataset::Kind::kArchives, archives);
  std::vector<Listing> listings(archives.size());
  std::vector<std::optional<Listing>> listed(archives.size());
  in_parallel(archives.size(), kScanThreads, [&](std::size_t i) {
    listings[i] = list_archive(context, archives[i]);
    listed[i] = list_listed_archive(context, archives[i], listings[i]);
    if (!listed[i]) label_images(context, archives[i], listings[i]);
  });
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (!listed[i]) continue;
    if (archives.size() > 1)  // lists of several would give one name to different images
      context.fail("the archive '" + archives[i] + "' holds its own list of images (" +
                   describe(listed[i]->set.kind) +
                   "), which cannot be read together with other archives. Give this archive "
                   "alone, or pack the images into shards ('kiln pack').");
    for (Dataset* part : {&listings[i].set, &listed[i]->set})
      std::ranges::move(part->notes, std::back_inserter(notes));
    listed[i]->set.notes = std::move(notes);
    return *std::move(listed[i]);
  }
  FoundLabels given;
  const bool has_labels = std::ranges::any_of(
      listings, [](const Listing& one) { return !one.set.found.labels.empty(); });
  if (has_labels) read_given_names(context, given);
  for (std::size_t i = 0; has_labels && i < archives.size(); ++i)
    add_own_names(context, archives[i], listings[i].classes, given);
  Listing all = merge_listings(context, archives, std::move(listings), std::move(given));
  all.set.kind = Dataset::Kind::kArchives;
  if (!has_labels) label_by_folders(context, all);
  all.set.notes.insert(all.set.notes.begin(), notes.begin(), notes.end());
  if (all.set.samples.empty())
    context.fail(all.left_out.instead_of_images() +
                 ". Give an archive with one folder of images per class; " + image_names_advice());
  read_source(context, all.set);
  return all;
}

}  // namespace kiln
