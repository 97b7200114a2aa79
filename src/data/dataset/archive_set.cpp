#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/system.h"
#include "base/text.h"
#include "base/text_file.h"
#include "data/dataset/archive_files.h"
#include "data/dataset/folder_entries.h"
#include "data/dataset/listed_files.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::string_view folder_of(std::string_view name) {
  return name.substr(0, name.rfind('/') + 1);
}

// Shortens a folder, with a trailing slash, to the part that it shares with another.
void shorten_to_shared(std::string& shared, std::string_view folder) {
  const auto end = std::mismatch(shared.begin(), shared.end(), folder.begin(), folder.end());
  shared.erase(end.first, shared.end());
  shared.erase(shared.rfind('/') + 1);
}

// Assigns labels and an order to the images of all archives.
class Assembly {
 public:
  Assembly(const DatasetContext& context, std::vector<ArchiveListing> listings,
           std::vector<std::string> names, Dataset& set)
      : context_(context), listings_(std::move(listings)), names_(std::move(names)), set_(set) {}

  void run() {
    const bool has_labels =
        std::any_of(listings_.begin(), listings_.end(),
                    [](const auto& listing) { return !listing.labels.empty(); });
    if (has_labels) {
      label_by_files();
    } else {
      label_by_folders();
    }
    LeftOut left_out = std::move(left_out_);
    for (std::size_t a = 0; a < listings_.size(); ++a) {
      left_out.add_all(listings_[a].left_out, prefix(a));
      if (listings_[a].file.is_open())
        set_.archives.push_back({names_[a], std::move(listings_[a].file)});
    }
    for (std::string& note : left_out.notes()) set_.notes.push_back(std::move(note));
  }

 private:
  // Of the names of an archive's images.
  std::string prefix(std::size_t archive) const {
    return names_.size() == 1 ? "" : names_[archive] + "/";
  }

  void require_utf8(std::string_view name, const std::string& what) const {
    if (is_utf8(name)) return;
    context_.fail("the name of " + what + " '" + printable(name.substr(0, 200)) +
                  "' is not UTF-8. Rename it, and create the archive again.");
  }

  void add(std::size_t archive, std::size_t image, int label) {
    const SampleTable& images = listings_[archive].images;
    const std::string name = prefix(archive) + std::string(images.file_name(image));
    if (images.member(image) == nullptr) return set_.samples.add(name, label);
    ArchiveMember member = *images.member(image);
    member.archive = static_cast<std::uint16_t>(archive);
    set_.samples.add(name, label, &member);
  }

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

  void label_by_files() {
    std::map<std::string, int> indices;
    std::vector<std::string> texts;
    for (const ArchiveListing& listing : listings_)
      for (const std::string& label : listing.labels)
        if (indices.emplace(label, static_cast<int>(texts.size())).second) texts.push_back(label);
    take_given_names(context_, set_);
    for (std::size_t a = 0; a < listings_.size(); ++a) take_own_names(a);
    take_texts(texts, set_.found);
    for (std::size_t a = 0; a < listings_.size(); ++a) {
      const ArchiveListing& listing = listings_[a];
      for (std::size_t i = 0; i < listing.images.size(); ++i) {
        const int label = listing.images.label(i);
        add(a, i, label < 0 ? -1 : indices.at(listing.labels[static_cast<std::size_t>(label)]));
      }
    }
    settle_labels(set_, context_.records.first_label);
  }

  struct Place {
    std::string_view folder, name;  // relative to common_base()
    std::uint32_t archive = 0, image = 0;
    bool operator<(const Place& other) const {
      return std::tie(folder, name, archive, image) <
             std::tie(other.folder, other.name, other.archive, other.image);
    }
  };

  template <typename Visit>
  void for_each_image(Visit&& visit) const {
    for (std::uint32_t a = 0; a < listings_.size(); ++a) {
      for (std::uint32_t i = 0; i < listings_[a].images.size(); ++i)
        visit(a, i, listings_[a].images.file_name(i));
    }
  }

  // Returns the path above the class folders that all images share, with a trailing slash. May be
  // empty.
  std::string common_base() const {
    std::string common;
    bool is_first = true, all_alike = true;
    for_each_image([&](std::uint32_t, std::uint32_t, std::string_view name) {
      const std::string_view folder = folder_of(name);
      if (is_first) common = folder;
      is_first = false;
      all_alike = all_alike && folder == common;
      shorten_to_shared(common, folder);
    });
    if (all_alike && !common.empty()) common.erase(common.rfind('/', common.size() - 2) + 1);
    return common;
  }

  void label_by_folders() {
    const std::string base = common_base();
    std::vector<Place> places;
    LeftOut outside;  // of the class folders
    for_each_image([&](std::uint32_t archive, std::uint32_t image, std::string_view name) {
      name.remove_prefix(base.size());
      const std::size_t slash = name.find('/');
      const bool is_deep = slash != name.npos && name.find('/', slash + 1) != name.npos;
      using Kind = LeftOut::Kind;
      if (is_deep || slash == name.npos)
        outside.add(is_deep ? Kind::kDeepImage : Kind::kRootImage, base + std::string(name));
      else
        places.push_back({name.substr(0, slash), name.substr(slash + 1), archive, image});
    });
    std::sort(places.begin(), places.end());
    for (const Place& place : places) {
      if (set_.classes.empty() || set_.classes.back() != place.folder) {
        require_utf8(place.folder, "the class folder");
        set_.classes.emplace_back(place.folder);
      }
      if (!context_.every_image)
        add(place.archive, place.image, static_cast<int>(set_.classes.size()) - 1);
    }
    if (places.empty() || context_.every_image) return add_every_image(base);
    left_out_ = std::move(outside);
  }

  void add_every_image(const std::string& base) {
    for_each_image([&](std::uint32_t archive, std::uint32_t image, std::string_view name) {
      name.remove_prefix(base.size());
      const std::string_view folder = name.substr(0, std::min(name.find('/'), name.size()));
      const bool is_in_class = std::count(name.begin(), name.end(), '/') == 1;
      const auto found = std::lower_bound(set_.classes.begin(), set_.classes.end(), folder);
      add(archive, image,
          is_in_class ? static_cast<int>(std::distance(set_.classes.begin(), found)) : -1);
    });
  }

  const DatasetContext& context_;
  std::vector<ArchiveListing> listings_;
  const std::vector<std::string> names_;
  Dataset& set_;
  LeftOut left_out_;
};

// The folders of an archive that hold all of its images, from the outermost.
std::vector<std::string> folders_of_all(const ArchiveListing& listing) {
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

// Reads an ImageDirectory or COCO folder in an archive: all of it, or the folder that holds all of
// its images. Empty if it is neither.
std::optional<Dataset> read_listed_archive(const DatasetContext& context,
                                           const std::string& archive, ArchiveListing& listing) {
  return with_archive_named(context, archive, kArchiveKind, [&]() -> std::optional<Dataset> {
    for (const std::string& folder : folders_of_all(listing)) {
      if (!may_have_list(listing.others, folder)) continue;
      std::optional<Dataset> set =
          read_by_list(context, ArchiveFiles(listing, folder, archive), listing.notes);
      if (!set) continue;
      if (!set->list_name.empty()) set->list_name.insert(0, folder);
      return set;
    }
    return std::nullopt;
  });
}

// Lists of several archives would give one name to different images.
void require_alone(const DatasetContext& context, const std::vector<std::string>& archives,
                   std::size_t listed, Dataset::Kind kind) {
  if (archives.size() == 1) return;
  context.fail("the archive '" + archives[listed] + "' holds its own list of images (" +
               describe(kind) +
               "), which cannot be read together with other archives. Give this "
               "archive alone, or pack the images into shards ('kiln pack').");
}

}  // namespace

std::string fault_of_class_line(std::string_view name, bool is_first) {
  if (name.find('\n') != name.npos) return "contains an end of line";
  if (name.ends_with('\r')) return "ends with a carriage return";
  if (is_first && without_byte_order_mark(name) != name) return "begins with a byte-order mark";
  return {};
}

Dataset read_label_files(const DatasetContext& context, ArchiveListing listing) {
  Dataset set;
  set.kind = Dataset::Kind::kClassFolders;
  set.root = context.root;
  std::vector<ArchiveListing> listings;
  listings.push_back(std::move(listing));
  Assembly(context, std::move(listings), {""}, set).run();
  return set;
}

Dataset read_archives(const DatasetContext& context, const std::vector<std::string>& archives) {
  if (archives.size() > kMaxArchives)
    context.fail("it contains more than 65535 archives. Pack the images into larger ones.");
  allow_open_files(archives.size());
  Dataset set;
  set.kind = Dataset::Kind::kArchives;
  set.root = context.root;
  set.stamps.push_back(context.stamp(""));
  for (const std::string& archive : archives) {
    if (!archive.empty()) set.stamps.push_back(context.stamp(archive));
  }
  require_one_set(context, archives, set);
  std::vector<ArchiveListing> listings(archives.size());
  std::vector<std::optional<Dataset>> listed(archives.size());
  in_parallel(archives.size(), kScanThreads, [&](std::size_t i) {
    listings[i] = list_archive(context, archives[i]);
    listed[i] = read_listed_archive(context, archives[i], listings[i]);
    if (!listed[i]) label_images(context, archives[i], listings[i]);
  });
  OtherFiles other_files;
  for (std::size_t i = 0; i < listings.size(); ++i) {
    std::ranges::move(listings[i].notes, std::back_inserter(set.notes));
    other_files.add(archives.size() == 1 ? "" : archives[i] + "/",
                    listings[i].left_out.other_files);
  }
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (!listed[i]) continue;
    require_alone(context, archives, i, listed[i]->kind);
    std::ranges::move(listed[i]->notes, std::back_inserter(set.notes));
    listed[i]->notes = std::move(set.notes);
    listed[i]->stamps = std::move(set.stamps);
    return *std::move(listed[i]);
  }
  Assembly(context, std::move(listings), archives, set).run();
  if (set.samples.empty()) {
    context.fail(other_files.instead_of_images() +
                 ". Give an archive with one folder of images per class; " + image_names_advice());
  }
  take_source(context, set);
  return set;
}

}  // namespace kiln
