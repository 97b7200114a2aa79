// Lists folders, recognizes images and archives by name, and keeps count of what is left out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/image/unread_kind.h"

namespace kiln {

// An entry as the folder itself describes it: entries are not opened, and only links are resolved.
struct FolderEntry {
  // kLost: a broken or circular link. kOther: pipes, devices, sockets.
  enum class Kind { kFile, kFolder, kLost, kOther };
  std::string_view name;
  Kind kind = Kind::kOther;  // of the target, for a link
  bool may_be_link = false;  // false: definitely not a link
};

// The entries of a folder, sorted bytewise by name, without "." and "..".
class FolderEntries {
 public:
  FolderEntries() = default;
  // Throws std::filesystem::filesystem_error naming the path if the folder or a link in it cannot
  // be read.
  explicit FolderEntries(const std::filesystem::path& folder);

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<char> names_;  // the entries point into it; moving the object keeps its address
  std::vector<FolderEntry> entries_;
};

// For a scan: more threads than processors, since on network mounts they mostly wait.
constexpr int kScanThreads = 16;

// Whether a file or folder of this name, or any part of a path, is never data, wherever it is:
// hidden ones, and what systems and programs leave behind: __MACOSX, .ipynb_checkpoints, @eaDir,
// lost+found, .DS_Store, Thumbs.db, desktop.ini and ._*.
bool is_never_data(std::string_view name);
bool has_part_that_is_never_data(std::string_view path);

// Whether the name ends in `extension`, which is lowercase, in any case.
bool has_extension(std::string_view file_name, std::string_view extension);

// Files are recognized by name, in any case, since opening each one would take too long.

// One of image_extensions().
bool has_image_extension(std::string_view file_name);

// .zip .tar .tar.gz .tgz .tar.bz2 .tbz2 .tar.zst .tzst
bool has_archive_extension(std::string_view file_name);

// .tfrecord .tfrecords .tfrec .rec, or a shard number as in train-00000-of-01024; also with .gz
bool has_record_name(std::string_view file_name);

// Without all the extensions above: "train-00000-of-01024" for train-00000-of-01024.tar.gz.
std::string_view packed_stem(std::string_view file_name);

// "train" for train-00000-of-01024; empty if the name does not end like this.
std::string_view numbered_set_name(std::string_view file_name);

// A word of a name, and its other words, without numbers: "val" and "imagenet k" of
// imagenet1k-val-00, "train" and "set" of Trainset. Words end at what is no letter, and before a
// capital letter that follows a small one.
struct WordOfName {
  std::string word;  // in small letters; empty: there is none
  std::string rest;
};
// Finds the first one of `words` in the name.
WordOfName word_of_name(std::string_view name, std::span<const std::string_view> words);

// What names of folders and files call the sets of a dataset.
inline constexpr auto kSetWords =
    std::to_array<std::string_view>({"train", "training", "trainval", "valid", "validation", "val",
                                     "test", "testing", "dev", "eval", "evaluation", "holdout"});

// The list of supported extensions, for the end of an error message.
std::string image_names_advice();

// What a folder or archive holds beside its images: counted, and the first of each kind named, so
// that nothing is left out in silence.

// Below, `prefix` completes the names in a folder or archive.

// How many names there are, and the first few of them.
class FewNames {
 public:
  void add(std::string name);
  void add_all(const std::string& prefix, const FewNames& inside);

  std::size_t count() const { return count_; }
  // "'a', 'b', …".
  std::string quoted() const;

 private:
  std::size_t count_ = 0;
  std::vector<std::string> names_;
};

// Files that are no images by their names.
class OtherFiles {
 public:
  void add(std::string_view path);
  void add(const std::string& prefix, const OtherFiles& inside);
  // Forgets those that are not photos or videos.
  void keep_pictures() { groups_.erase(nullptr); }

  // "3 files are HEIC photos, which Kiln does not read; convert them with `heif-convert`: 'a.HEIC',
  // …" for each kind, then the files of other kinds.
  std::vector<std::string> notes() const;
  // Why there are no images: "no images", or the notes of photos and videos that are there instead.
  std::string instead_of_images() const;

 private:
  std::map<const UnreadKind*, FewNames> groups_;  // nullptr: any other kind
};

class LeftOut {
 public:
  // In the order of the notes.
  enum class Kind {
    kLoop,
    kBrokenLink,
    kLinkOutside,
    kRepeatedLink,
    kEmptyFolder,
    kDeepFolder,
    kDeepImage,
    kRootImage,
    kRootData,
    kRootLabels,
    kListInside,
    kBesidePhotograph,
    kRepeatedName,
    kSpareLabel,
    kSeveralLabels,
    kUnlisted,
    kHiddenImage,
    kDevice,
    kNumKinds
  };

  void add(Kind kind, std::string name);
  void add_all(Kind kind, const FewNames& names);
  void add_all(const LeftOut& other, const std::string& prefix);

  // A sentence without a full stop for each kind, "2 links are broken …: 'a', 'b'", and then the
  // notes of other_files.
  std::vector<std::string> notes() const;

  OtherFiles other_files;

 private:
  std::array<FewNames, static_cast<std::size_t>(Kind::kNumKinds)> kinds_;
};

}  // namespace kiln
