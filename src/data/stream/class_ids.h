// Maps the labels of a stream to classes that are known in advance.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace kiln {

// Throws Error kNotLabeledDataset. `stream` is the name of the stream: "Training dataset '-'".
[[noreturn]] void refuse_unlabeled(const std::string& stream, const std::string& image);

class ClassIds {
 public:
  // `first` is the number of the first class. `stream` is its name in errors, as above.
  ClassIds(const std::vector<std::string>& classes, int first, std::string stream);

  // `label` is the name of a class, or else its number. Throws Error kNotLabeledDataset if it is
  // empty, kInvalidDataset if there is no such class.
  int of(const std::string& label, const std::string& image) const;

 private:
  std::unordered_map<std::string, int> ids_;
  int first_;
  std::string stream_;
};

}  // namespace kiln
