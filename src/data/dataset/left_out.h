// What a dataset's folder or archive holds beside its images: counted, and the first of each kind
// named, so that nothing is left out in silence.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/image/unread_kind.h"

namespace kiln {

// How many names there are, and the first few of them.
class FewNames {
 public:
  void add(std::string name);
  // Adds the names in a folder or archive, which `prefix` completes.
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
  // Adds the files of a folder or archive, whose names `prefix` completes.
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
    kBesidePhotograph,
    kRepeatedName,
    kSpareLabel,
    kHiddenImage,
    kDevice,
    kNumKinds
  };

  void add(Kind kind, std::string name);
  // Adds what was left out below `prefix`.
  void add_all(const LeftOut& other, const std::string& prefix);

  // A sentence without a full stop for each kind, "2 links are broken …: 'a', 'b'", and then the
  // notes of other_files.
  std::vector<std::string> notes() const;

  OtherFiles other_files;

 private:
  std::array<FewNames, static_cast<std::size_t>(Kind::kNumKinds)> kinds_;
};

}  // namespace kiln
