// What a dataset's folder or archive holds beside its images: counted, and the first of each kind
// named, so that nothing is left out in silence.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "data/dataset/other_files.h"

namespace kiln {

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
