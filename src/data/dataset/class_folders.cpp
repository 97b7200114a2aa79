// Class folders, one level deep; or else images at any depth, without labels or with those of label
// files beside them. Symbolic links are followed wherever they lead. What a file holds is checked
// when it is decoded.
#include <algorithm>
#include <optional>
#include <set>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/listing.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using Reason = LeftOut::Reason;

struct Inner {
  std::string name;
  bool may_be_link = false;
  bool is_loop = false;  // a link back to the folder that it is in, or to one above it
};

// The contents of a folder, each list sorted by code point.
struct FolderNames {
  std::string images;  // names, each followed by a slash, which no name contains
  std::size_t num_images = 0;
  std::vector<Inner> folders;
  std::vector<std::string> label_files;
  LeftOut left_out;  // broken links, hidden images and other files
};

FolderNames list_folder(const fs::path& folder, const DatasetContext& context) {
  FolderNames found;
  try {
    for (const auto& [name, type, may_be_link] : FolderEntries(folder)) {
      if (is_never_data(name)) {
        if (has_image_extension(name) && !name.starts_with("._"))
          found.left_out.add(Reason::kHiddenImage, std::string(name));
      } else if (type == fs::file_type::directory) {
        found.folders.push_back({std::string(name), may_be_link});
      } else if (type != fs::file_type::regular) {
        found.left_out.add(type == fs::file_type::not_found ? Reason::kBrokenLink : Reason::kDevice,
                           std::string(name));
      } else if (has_image_extension(name)) {
        (found.images += name) += '/';
        ++found.num_images;
      } else if (is_label_file(name)) {
        found.label_files.emplace_back(name);
      } else if (name != kClassesName) {
        found.left_out.add_file(name);
      }
    }
  } catch (const fs::filesystem_error& fault) {
    context.fail("'" + fault.path1().string() + "' cannot be read: " + fault.code().message() +
                 ". Check its permissions.");
  }
  return found;
}

template <typename Visit>
void for_each_image(const FolderNames& found, Visit&& visit) {
  const std::string_view names = found.images;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = names.find('/', begin);
    visit(names.substr(begin, end - begin));
    begin = end + 1;
  }
}

// True if `folder` is a link to `canonical_root` or to a folder above it.
bool leads_back(const fs::path& folder, const fs::path& canonical_root) {
  if (type_of_entry(folder) != fs::file_type::symlink) return false;
  std::error_code fault;
  const fs::path target = fs::canonical(folder, fault);
  return !fault && is_inside(canonical_root, target);
}

// The folders of a walk below the root: each is entered once, however many links lead to it.
class WalkedFolders {
 public:
  explicit WalkedFolders(const fs::path& root) : root_(fs::canonical(root)), entered_{root_} {}

  // Why the walk does not enter `name` in the canonical path `folder`; empty: it enters it now. A
  // link that leads to a folder which the walk meets by its own name is not entered.
  std::optional<Reason> enter(const fs::path& folder, const std::string& name) {
    const fs::path inner = folder / name;
    std::error_code fault;
    const fs::path real = fs::canonical(inner, fault);
    if (fault) return Reason::kBrokenLink;
    if (real != inner && is_inside(folder, real)) return Reason::kLoop;
    const bool has_own_name = real != inner && is_inside(real, root_) &&
                              !has_part_that_is_never_data(real.lexically_relative(root_).native());
    if (has_own_name || !entered_.insert(real).second) return Reason::kRepeatedLink;
    return {};
  }

 private:
  const fs::path root_;
  std::set<fs::path> entered_;
};

void require_class_name(const std::string& name, const DatasetContext& context) {
  if (!is_utf8(name))
    context.fail("the name of the class folder '" + name + "' is not UTF-8. Rename it.");
}

void add_class(const Inner& folder, const FolderNames& found, Listing& listing,
               const DatasetContext& context) {
  const std::string& name = folder.name;
  Dataset& set = listing.set;
  if (folder.is_loop) return listing.left_out.add(Reason::kLoop, name);
  listing.left_out.add_all(found.left_out, name + "/");
  for (const Inner& inner : found.folders)
    listing.left_out.add(inner.is_loop ? Reason::kLoop : Reason::kDeepFolder,
                         name + "/" + inner.name);
  if (found.num_images == 0) return listing.left_out.add(Reason::kEmptyFolder, name);
  require_class_name(name, context);
  const int label = static_cast<int>(set.classes.size());
  set.classes.push_back(name);
  std::string path = name + "/";
  for_each_image(found, [&](std::string_view image) {
    path.replace(name.size() + 1, path.npos, image);
    set.samples.add(path, label);
  });
}

// Whether there is a label file in a class folder or below it.
bool has_label_files(const FolderNames& top, const std::vector<FolderNames>& found,
                     const DatasetContext& context) {
  WalkedFolders walked(context.root);
  std::vector<fs::path> folders;
  const auto add_inner = [&](const fs::path& folder, const FolderNames& names) {
    if (names.folders.empty()) return;
    const fs::path real = fs::canonical(folder);
    for (const Inner& inner : names.folders)
      if (!walked.enter(real, inner.name)) folders.push_back(fs::canonical(real / inner.name));
  };
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i].label_files.empty()) return true;
    add_inner(context.root / top.folders[i].name, found[i]);
  }
  while (!folders.empty()) {
    const fs::path folder = std::move(folders.back());
    folders.pop_back();
    const FolderNames names = list_folder(folder, context);
    if (!names.label_files.empty()) return true;
    add_inner(folder, names);
  }
  return false;
}

// Reads the classes in the folders of the root. False if label files decide instead.
// Lists all of them before adding any image, so that the memory for all samples can be reserved at
// once: growing it costs more than copying the names once more.
bool read_classes(FolderNames& top, Listing& listing, const DatasetContext& context) {
  if (!top.label_files.empty()) return false;
  const fs::path canonical_root = fs::canonical(context.root);
  std::vector<FolderNames> found(top.folders.size());
  in_parallel(found.size(), kScanThreads, [&](std::size_t i) {
    Inner& own = top.folders[i];
    const fs::path folder = context.root / own.name;
    own.is_loop = own.may_be_link && leads_back(folder, canonical_root);
    if (own.is_loop) return;
    found[i] = list_folder(folder, context);
    for (Inner& inner : found[i].folders)
      inner.is_loop = inner.may_be_link && leads_back(folder / inner.name, fs::canonical(folder));
  });
  if (has_label_files(top, found, context)) return false;
  std::size_t num_images = 0, name_bytes = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    num_images += found[i].num_images;  // whose slashes are those of their paths
    name_bytes += found[i].num_images * top.folders[i].name.size() + found[i].images.size();
  }
  listing.set.samples.reserve(num_images, name_bytes);
  for (std::size_t i = 0; i < found.size(); ++i)
    add_class(top.folders[i], found[i], listing, context);
  return true;
}

// Whether the beginning of the list has names of the set's images: with their extension, or without
// it if they have at least four bytes, since shorter ones may be any number.
bool names_images(const fs::path& list, const SampleTable& images) {
  constexpr std::size_t kBeginning = 64 << 10, kLeastStem = 4;
  std::string text;
  try {
    text = first_bytes(list, kBeginning);
  } catch (const std::system_error&) {  // it is told that nothing of it is read
  }
  std::unordered_set<std::string_view> words;
  for (std::size_t begin = 0, end = 0; end != text.npos; begin = end + 1) {
    end = text.find_first_of(",;:\"'\\/ \t\r\n", begin);
    words.insert(std::string_view(text).substr(begin, end - begin));
  }
  return std::any_of(images.begin(), images.end(), [&](const Sample& image) {
    const std::string_view name = image.file_name.substr(image.file_name.rfind('/') + 1);
    const std::string_view stem = name.substr(0, name.rfind('.'));
    return words.contains(name) || (stem.size() >= kLeastStem && words.contains(stem));
  });
}

// Counts the lists and packed files beside the class folders, of which nothing is read. A text that
// names no image of the folders may be anything.
void add_data_beside(Listing& listing, const DatasetContext& context) {
  int num_unknown = 10;  // lists that are still to be looked into, which takes time
  for (const auto& [name, type, may_be_link] : FolderEntries(context.root)) {
    if (type != fs::file_type::regular || is_never_data(name) || !is_dataset_file(name)) continue;
    if (is_label_list(name) && num_unknown-- > 0 &&
        names_images(context.root / name, listing.set.samples))
      listing.left_out.add(Reason::kRootLabels, std::string(name));
    else if (!has_extension(name, ".txt"))
      listing.left_out.add(Reason::kRootData, std::string(name));
  }
}

// Visits every image below the root, and each folder only once, however many links lead to it. With
// `every_image`, the folders in the root are the labels of the images directly in them.
void walk_images(const DatasetContext& context, const std::string& prefix, int depth,
                 WalkedFolders& walked, Listing& listing, std::vector<std::string>& label_files) {
  constexpr int kMaxDepth = 100;
  const fs::path folder = context.root / prefix;
  if (depth > kMaxDepth)
    context.fail("the folder '" + folder.string() +
                 "' is more than 100 levels deep. Give a folder with one subfolder per class.");
  const FolderNames found = list_folder(folder, context);
  listing.left_out.add_all(found.left_out, prefix);
  for (const std::string& name : found.label_files) label_files.push_back(prefix + name);
  int label = -1;
  if (std::vector<std::string>& classes = listing.set.classes;
      context.every_image && depth == 1 && found.num_images > 0) {
    label = static_cast<int>(classes.size());
    classes.push_back(prefix.substr(0, prefix.size() - 1));
    require_class_name(classes.back(), context);
  }
  for_each_image(found, [&](std::string_view image) {
    listing.set.samples.add(prefix + std::string(image), label);
  });
  if (found.folders.empty()) return;
  const fs::path real = fs::canonical(folder);
  for (const Inner& inner : found.folders) {
    const std::string path = prefix + inner.name;
    if (const std::optional<Reason> why_not = walked.enter(real, inner.name))
      listing.left_out.add(*why_not, path);
    else
      walk_images(context, path + "/", depth + 1, walked, listing, label_files);
  }
}

// The labels of a folder's images by its label files.
Listing labeled_by_files(Listing walked, const std::vector<std::string>& label_files,
                         const DatasetContext& context) {
  std::vector<std::string> texts(label_files.size());
  in_parallel(texts.size(), kScanThreads, [&](std::size_t i) {
    try {
      texts[i] = first_bytes(context.root / label_files[i], 2 * kMaxLabelBytes);
    } catch (const std::system_error& fault) {
      context.fail("the label file '" + label_files[i] +
                   "' cannot be read: " + fault.code().message() + ". Check its permissions.");
    }
  });
  FoundLabels given;
  try {
    LabelFiles labels;
    for (std::size_t i = 0; i < texts.size(); ++i) labels.add(label_files[i], texts[i]);
    label_by_files(labels, walked);
    read_given_names(context, given);
  } catch (const LabelFault& fault) {
    context.fail(std::string(fault.what()) + ". Correct the files, or remove them.");
  }
  std::vector<Listing> listings;
  listings.push_back(std::move(walked));
  return merge_listings(context, {""}, std::move(listings), std::move(given));
}

}  // namespace

Listing list_folders(const DatasetContext& context) {
  Listing listing;
  FolderNames top = list_folder(context.root, context);
  if (!context.every_image && read_classes(top, listing, context) && !listing.set.samples.empty()) {
    top.left_out.forget(Reason::kOther);  // such as a README
    listing.left_out.add_all(top.left_out, "");
    for_each_image(top, [&](std::string_view image) {
      listing.left_out.add(Reason::kRootImage, std::string(image));
    });
    add_data_beside(listing, context);
  } else {
    listing = Listing();
    WalkedFolders walked(context.root);
    std::vector<std::string> label_files;
    walk_images(context, "", 0, walked, listing, label_files);
    if (!label_files.empty() && !listing.set.samples.empty())
      listing = labeled_by_files(std::move(listing), label_files, context);
  }
  Dataset& set = listing.set;
  const bool has_labels = set.labeled() || !set.found.labels.empty();
  set.kind = has_labels ? Dataset::Kind::kClassFolders : Dataset::Kind::kUnlabeledFolder;
  if (set.samples.empty()) {
    std::string notes;
    for (const std::string& note : listing.left_out.notes(Reason::kLoop, Reason::kDevice))
      notes += " (" + note + ")";
    context.fail(listing.left_out.instead_of_images() + notes +
                 ". Give a folder with one folder of images per class; " + image_names_advice());
  }
  const std::string labels =
      names_of_unread_labels(set.samples, fs::absolute(context.root).string() + "/",
                             [](const std::string& path) { return is_there(path); });
  report_unread_labels(context, labels, set);
  return listing;
}

}  // namespace kiln
