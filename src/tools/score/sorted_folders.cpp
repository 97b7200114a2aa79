#include "tools/score/sorted_folders.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnsure = "unsure";
constexpr std::size_t kMaxNameBytes = 200;  // without number and extension; file systems allow 255

// "a.jpg", "a-2.jpg", …
std::string numbered(const fs::path& name, int number) {
  return cut_to_bytes(name.stem().string(), kMaxNameBytes) +
         (number == 1 ? "" : "-" + std::to_string(number)) + name.extension().string();
}

// What a link in `folder` to the image has in it: a relative path, unless the two have only the
// root in common.
std::string link_to(const fs::path& image, const fs::path& folder) {
  // ".." leads from where a folder is, not from where a link to it is.
  const fs::path from = fs::canonical(folder),
                 file = fs::canonical(fs::absolute(image).parent_path()) / image.filename();
  return *std::next(from.begin()) == *std::next(file.begin()) ? file.lexically_relative(from)
                                                              : file;
}

// What is in the file or the link at `place`, as a hash. Empty: it is neither, or cannot be read.
std::optional<std::uint64_t> print_of(const fs::path& place, bool is_link) try {
  const fs::file_type type = fs::symlink_status(place).type();
  if (is_link && type == fs::file_type::symlink)
    return content_hash(fs::read_symlink(place).string());
  if (!is_link && type == fs::file_type::regular) return content_hash(read_file(place));
  return std::nullopt;
} catch (const std::system_error&) {
  return std::nullopt;
}

// Replaces nothing. False: something has got that name meanwhile.
bool make(const fs::path& place, const std::string& content, bool is_link) {
  int error = 0;
  if (is_link) {
    if (::symlink(content.c_str(), place.c_str()) != 0) error = errno;
  } else {
    const DurableFile file = complete_file(place, content);  // removes its temporary name
    const char *from = file.temporary_path().c_str(), *to = place.c_str();
    if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) != 0) error = errno;
    if (error == EINVAL || error == ENOSYS) error = ::link(from, to) == 0 ? 0 : errno;  // NFS
  }
  if (error != 0 && error != EEXIST) fail_to_write(place, error);
  if (error == 0) sync_folder(place.parent_path());
  return error == 0;
}

// The folder of each class, all different: its name, without what would lead elsewhere, hide the
// folder, or be that of images without an answer.
std::vector<std::string> folder_names(const std::vector<std::string>& classes) {
  std::set<std::string> taken = {kUnsure};
  std::vector<std::string> names;
  for (std::string name : classes) {
    std::ranges::replace(name, '/', '_');
    if (name.empty() || name.front() == '.') name.insert(0, "_");
    const std::string plain = name = cut_to_bytes(name, kMaxNameBytes);
    for (int number = 2; !taken.insert(name).second; ++number)
      name = plain + "-" + std::to_string(number);
    names.push_back(name);
  }
  return names;
}

}  // namespace

SortedFolders::SortedFolders(fs::path folder, bool are_links, const Dataset& images,
                             const std::vector<std::string>& classes, Log& log)
    : folder_(std::move(folder)), are_links_(are_links), names_(folder_names(classes)), log_(log) {
  if (are_links && !images.archives.empty())
    throw Error(ErrorCode::kUserError,
                "--sort-into links:" + folder_.string() + ": the images of " +
                    quoted_path(images.root) +
                    " are inside larger files, and a link leads to a whole one. Leave links: out, "
                    "and they are copied.");
  make_folders(folder_);
  rehearse_write(folder_ / kUnsure);
  for (std::size_t c = 0; c < classes.size(); ++c)
    if (names_[c] != classes[c])
      log_.info("folder:    '" + names_[c] + "' has the images of class '" + classes[c] + "'");
}

void SortedFolders::add(const Dataset& set, const AnsweredImage& image) {
  const Score& answer = image.score;
  if (answer.best.empty()) {
    ++num_left_out_;
    return;
  }
  const fs::path file = set.samples.file_name(image.index),
                 folder = folder_ / (answer.is_unsure ? kUnsure : names_[answer.best[0].id]);
  make_folders(folder);
  std::string content;
  try {
    read_image_bytes(set, image.index, content);
    if (content_hash(content) != image.hash) throw ImageFault("it has changed");
    if (are_links_) content = link_to(set.image_root() / file, folder);
  } catch (const ImageFault& fault) {
    ++num_left_out_;
    return log_.warning("'" + answer.path + "' is not sorted: since it was scored, " +
                        fault.what());
  }
  const std::uint64_t print = content_hash(content);
  Namesakes* others = nullptr;  // of the first one, which is another image
  for (int number = 1; others == nullptr || !others->prints.contains(print);) {
    const fs::path place = folder / numbered(file.filename(), number);
    std::error_code fault;
    const fs::file_type type = fs::symlink_status(place, fault).type();
    if (type == fs::file_type::none) fail_to_write(place, fault.value());
    if (type == fs::file_type::not_found) {
      if (make(place, content, are_links_)) return void(++num_new_);
      continue;  // another job has just taken it: look again
    }
    const std::optional<std::uint64_t> found = print_of(place, are_links_);
    if (found == print) break;
    if (others == nullptr) {
      others = &namesakes_[place];
      number = others->next;
    } else {
      if (found) others->prints.insert(*found);
      number = ++others->next;
    }
  }
  ++num_there_;
}

void SortedFolders::log_result() const {
  log_.info((are_links_ ? "linked:    " : "copied:    ") + plural(num_new_, "image", "images") +
            " in folders of " + quoted_path(folder_) + "; " + grouped(num_there_) +
            " were there already, " + grouped(num_left_out_) + " bad ones are left out");
}

}  // namespace kiln
