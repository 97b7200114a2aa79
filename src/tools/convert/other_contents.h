// Files with the name of an image and other contents. Only images leave as images: no command
// copies such a file, since a link among the images may lead to any file of the user's.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

class OtherContents {
 public:
  void add(std::string_view file_name, std::string_view bytes);
  // Throws Error kInvalidDataset naming the files if they are all that `set` has.
  void require_others(bool has_images, const Dataset& set) const;
  // "2 files are no images and are not copied: 'cat/1.jpg' (text), …"; empty if there are none.
  std::string note() const;
  std::size_t count() const { return count_; }

 private:
  std::string named() const;

  std::size_t count_ = 0;
  std::vector<std::string> named_;  // the first few
};

// Removes them from a set, with a note. Reads the beginning of every file; one that cannot be read
// stays. Throws Error kInvalidDataset if nothing is left.
void leave_out_other_contents(Dataset& set);

}  // namespace kiln
