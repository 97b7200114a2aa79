// What record files do not say of themselves: which features are read, and which class a number is.
#pragma once

#include <optional>
#include <string>

namespace kiln {

// The features of a tf.train.Example that are read.
struct RecordKeys {
  std::string image = "image/encoded";      // bytes: the image's file
  std::string label = "image/class/label";  // int64: the class's number
  std::string text = "image/class/text";    // bytes: the class's name
  std::string name = "image/filename";      // bytes: the name of the image's file
  bool operator==(const RecordKeys&) const = default;
};

// "image=KEY,label=KEY,text=KEY", in any order; those left out keep their defaults. Throws
// std::invalid_argument with the fault, a clause.
RecordKeys parse_record_keys(const std::string& text);

struct RecordOptions {
  RecordKeys keys = {};
  std::string classes_file = {};  // names of classes, one a line; empty: none
  // The number of the first class, 0 or 1; empty: found.
  std::optional<int> first_label = {};
  bool operator==(const RecordOptions&) const = default;
};

}  // namespace kiln
