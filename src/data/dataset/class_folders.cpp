// Reads class folders, whose names are the labels, one level deep; or else images at any depth,
// without labels. Symbolic links are followed wherever they lead. A file counts as an image by its
// extension; its contents are checked when it is decoded.
#include <algorithm>
#include <set>

#include "base/system.h"
#include "base/text.h"
#include "data/dataset/folder_entries.h"
#include "data/dataset/other_files.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNamed = 10;

// The contents of a folder, each list sorted by code point.
struct Listing {
  std::string images;  // names, each followed by a slash, which no name contains
  std::size_t num_images = 0;
  std::vector<std::string> folders;
  std::vector<std::string> maybe_linked;  // those of `folders` that may be links
  std::vector<std::string> broken_links;  // broken or circular links
  std::size_t num_hidden_images = 0;
  OtherFiles other_files;
};

bool is_ignored(std::string_view name) {
  return name.starts_with('.') || name == "lost+found" || name == "__MACOSX";
}

Listing list_folder(const fs::path& folder, const DatasetContext& context) {
  Listing listing;
  try {
    for (const auto& [name, kind, may_be_link] : FolderEntries(folder)) {
      using Kind = FolderEntry::Kind;
      if (is_ignored(name)) {
        listing.num_hidden_images += has_image_extension(name) ? 1 : 0;
      } else if (kind == Kind::kFolder) {
        listing.folders.emplace_back(name);
        if (may_be_link) listing.maybe_linked.emplace_back(name);
      } else if (kind == Kind::kLost) {
        listing.broken_links.emplace_back(name);
      } else if (kind == Kind::kFile && has_image_extension(name)) {
        (listing.images += name) += '/';
        ++listing.num_images;
      } else if (kind == Kind::kFile) {
        listing.other_files.add(name);
      }
    }
  } catch (const fs::filesystem_error& fault) {
    context.fail("'" + fault.path1().string() + "' cannot be read: " + fault.code().message() +
                 ". Check its permissions.");
  }
  return listing;
}

template <typename Visit>
void for_each_image(const Listing& listing, Visit&& visit) {
  const std::string_view names = listing.images;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = names.find('/', begin);
    visit(names.substr(begin, end - begin));
    begin = end + 1;
  }
}

// Returns "'a', 'b', …" with at most ten names.
std::string name_some(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) {
    text += (i == 0 ? "'" : ", '") + names[i] + "'";
  }
  return names.size() > kMaxNamed ? text + ", …" : text;
}

std::string counted(std::size_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

// Groups skipped entries by reason, to keep the notes short.
struct LeftOut {
  std::vector<std::string> loops, broken_links, deep_folders, empty_folders, root_images, repeated;
  OtherFiles other_files;
  std::size_t num_hidden_images = 0;

  void add_links(const std::string& prefix, const Listing& listing) {
    for (const std::string& name : listing.broken_links) broken_links.push_back(prefix + name);
    num_hidden_images += listing.num_hidden_images;
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    const auto note = [&](const std::vector<std::string>& names, const std::string& one,
                          const std::string& many) {
      if (names.empty()) return;
      notes.push_back(counted(names.size(), one, many) + ": " + name_some(names));
    };
    note(loops, "link points to a folder above it and is skipped",
         "links point to a folder above them and are skipped");
    note(broken_links, "link is broken or circular and is skipped",
         "links are broken or circular and are skipped");
    note(repeated, "link points to a folder that is already included and is skipped",
         "links point to folders that are already included and are skipped");
    note(empty_folders, "folder without images is not a class",
         "folders without images are not classes");
    note(deep_folders, "folder inside a class folder is skipped",
         "folders inside class folders are skipped");
    note(root_images, "image next to the class folders is skipped",
         "images next to the class folders are skipped");
    for (std::string& text : other_files.notes()) notes.push_back(std::move(text));
    if (num_hidden_images > 0) {
      notes.push_back(counted(num_hidden_images, "image is", "images are") +
                      " skipped because the name begins with a dot");
    }
    return notes;
  }
};

// True if `folder` is a link to `canonical_root` or to a folder above it.
bool leads_back(const fs::path& folder, const fs::path& canonical_root) {
  std::error_code fault;
  if (!fs::is_symlink(fs::symlink_status(folder, fault))) return false;
  const fs::path target = fs::canonical(folder, fault);
  const auto [rest, end] =
      std::mismatch(target.begin(), target.end(), canonical_root.begin(), canonical_root.end());
  (void)end;
  return !fault && rest == target.end();
}

// The contents of one class folder, which is read independently of the others.
struct ClassListing {
  SourceStamp stamp;
  bool is_loop = false;
  Listing listing;
  std::vector<std::string> loops;  // folders inside that link back to this one or above
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

ClassListing list_class(const std::string& name, const Listing& top, const fs::path& canonical_root,
                        const DatasetContext& context) {
  const fs::path folder = context.root / name;
  ClassListing found{.stamp = context.stamp(name), .listing = {}, .loops = {}};
  found.is_loop = contains(top.maybe_linked, name) && leads_back(folder, canonical_root);
  if (found.is_loop) return found;
  found.listing = list_folder(folder, context);
  for (const std::string& inner : found.listing.maybe_linked) {
    if (leads_back(folder / inner, fs::canonical(folder))) found.loops.push_back(inner);
  }
  return found;
}

void require_class_name(const std::string& name, const DatasetContext& context) {
  if (!is_utf8(name))
    context.fail("the name of the class folder '" + printable(name) + "' is not UTF-8. Rename it.");
}

void add_class(const std::string& name, const ClassListing& found, LeftOut& left_out, Dataset& set,
               const DatasetContext& context) {
  if (found.is_loop) {
    left_out.loops.push_back(name);
    return;
  }
  left_out.add_links(name + "/", found.listing);
  left_out.other_files.add(name + "/", found.listing.other_files);
  for (const std::string& inner : found.listing.folders) {
    (contains(found.loops, inner) ? left_out.loops : left_out.deep_folders)
        .push_back(name + "/" + inner);
  }
  if (found.listing.num_images == 0) {
    left_out.empty_folders.push_back(name);
    return;
  }
  require_class_name(name, context);
  const int label = static_cast<int>(set.classes.size());
  set.classes.push_back(name);
  std::string path = name + "/";
  for_each_image(found.listing, [&](std::string_view image) {
    path.replace(name.size() + 1, path.npos, image);
    const auto id = static_cast<std::int64_t>(set.samples.size());
    set.samples.push_back({.file_name = path, .label = label, .id = id, .size = {}});
  });
}

// Lists all class folders before adding any image, so that the memory for all samples can be
// reserved at once: growing it costs more than copying the names once more.
void read_classes(const Listing& top, LeftOut& left_out, Dataset& set,
                  const DatasetContext& context) {
  const fs::path canonical_root = fs::canonical(context.root);
  std::vector<ClassListing> found(top.folders.size());
  in_parallel(found.size(), kScanThreads, [&](std::size_t i) {
    found[i] = list_class(top.folders[i], top, canonical_root, context);
  });
  std::size_t num_images = 0, name_bytes = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Listing& listing = found[i].listing;
    num_images += listing.num_images;
    name_bytes += listing.images.size() + top.folders[i].size() * listing.num_images;
  }
  set.samples.reserve(num_images, name_bytes);
  for (std::size_t i = 0; i < found.size(); ++i) {
    add_class(top.folders[i], found[i], left_out, set, context);
    set.stamps.push_back(std::move(found[i].stamp));
  }
}

// Visits every image below the root, and each folder only once, however many links lead to it. With
// `every_image`, the folders in the root are the labels of the images directly in them.
class ImageWalk {
 public:
  ImageWalk(Dataset& set, LeftOut& left_out, const DatasetContext& context)
      : set_(set), left_out_(left_out), context_(context) {}

  void visit(const std::string& prefix, int depth) {
    constexpr int kMaxDepth = 100;
    const fs::path folder = context_.root / prefix;
    if (depth > kMaxDepth) {
      context_.fail("the folder '" + folder.string() +
                    "' is more than 100 levels deep. Give a folder with one subfolder per class.");
    }
    seen_.insert(fs::canonical(folder));
    const Listing listing = list_folder(folder, context_);
    left_out_.add_links(prefix, listing);
    left_out_.other_files.add(prefix, listing.other_files);
    int label = -1;
    if (context_.every_image && depth == 1 && listing.num_images > 0) {
      label = static_cast<int>(set_.classes.size());
      set_.classes.push_back(prefix.substr(0, prefix.size() - 1));
      require_class_name(set_.classes.back(), context_);
    }
    for_each_image(listing, [&](std::string_view image) {
      const std::string path = prefix + std::string(image);
      const auto id = static_cast<std::int64_t>(set_.samples.size());
      set_.samples.push_back({.file_name = path, .label = label, .id = id, .size = {}});
    });
    for (const std::string& inner : listing.folders) {
      if (contains(listing.maybe_linked, inner) &&
          leads_back(folder / inner, fs::canonical(folder))) {
        left_out_.loops.push_back(prefix + inner);
      } else if (seen_.contains(fs::canonical(folder / inner))) {
        left_out_.repeated.push_back(prefix + inner);
      } else {
        visit(prefix + inner + "/", depth + 1);
      }
    }
  }

 private:
  Dataset& set_;
  LeftOut& left_out_;
  const DatasetContext& context_;
  std::set<fs::path> seen_;
};

}  // namespace

Dataset read_folders(const DatasetContext& context) {
  Dataset set;
  set.kind = Dataset::Kind::kClassFolders;
  set.root = context.root;
  LeftOut left_out;
  set.stamps.push_back(context.stamp(""));
  Listing top = list_folder(context.root, context);
  if (!context.every_image) read_classes(top, left_out, set, context);
  if (!set.samples.empty()) {
    left_out.add_links("", top);
    top.other_files.keep_pictures();  // the others, such as a README, are not taken for images
    left_out.other_files.add("", top.other_files);
    for_each_image(top, [&](std::string_view image) { left_out.root_images.emplace_back(image); });
  } else {
    left_out = {};
    ImageWalk(set, left_out, context).visit("", 0);
    if (!set.labeled()) set.kind = Dataset::Kind::kUnlabeledFolder;
  }
  set.notes = left_out.notes();
  if (set.samples.empty()) {
    std::string notes;
    const std::string found = left_out.other_files.instead_of_images();
    left_out.other_files = {};
    for (const std::string& note : left_out.notes()) notes += " (" + note + ")";
    context.fail(found + notes + ". Give a folder with one folder of images per class; " +
                 image_names_advice());
  }
  set.schema_json = schema_text(set.classes);
  set.samples_json = samples_text(set);
  return set;
}

}  // namespace kiln
