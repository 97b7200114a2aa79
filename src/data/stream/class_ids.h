// The class of an image that comes in a stream, where the classes are known before.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace kiln {

// Error kNotLabeledDataset. `stream` is its name: "Training dataset '-'".
[[noreturn]] void refuse_unlabeled(const std::string& stream, const std::string& image);

class ClassIds {
 public:
  // `stream` names it in errors, as above.
  ClassIds(const std::vector<std::string>& classes, std::string stream);

  // `label` is a class's name, or else its number, from `first` on. Throws Error kNotLabeledDataset
  // if it is empty, kInvalidDataset if it is no class.
  int of(const std::string& label, const std::string& image, int first = 0) const;

 private:
  std::unordered_map<std::string, int> ids_;
  std::string stream_;
};

}  // namespace kiln
