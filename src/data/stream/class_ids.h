// Maps the labels of a stream to classes that are known in advance.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "data/dataset/found_labels.h"

namespace kiln {

class ClassIds {
 public:
  // `first` is the number of the first class. With `reads_numbers`, written labels are numbers;
  // otherwise they are names, or numbers where these cannot be confused. `stream` is its name in
  // errors: "Training dataset '-'".
  ClassIds(const std::vector<std::string>& classes, int first, bool reads_numbers,
           std::string stream);

  // Throws Error kNotLabeledDataset if there is no label, kInvalidDataset if there is no such
  // class.
  int of(const RawLabel& label, const std::string& image) const;

 private:
  std::unordered_map<std::string, int> ids_;
  int first_;
  bool reads_numbers_, has_confusing_names_ = false;
  std::string stream_;
};

}  // namespace kiln
