// What record files do not say themselves: which features to read, and which class a number stands
// for.
#pragma once

#include <optional>
#include <string>

namespace kiln {

// The names of the features to read from a tf.train.Example.
struct RecordKeys {
  std::string image = "image/encoded";      // bytes: the image file's contents
  std::string label = "image/class/label";  // int64: the class's number
  std::string text = "image/class/text";    // bytes: the class's name
  std::string name = "image/filename";      // bytes: the image's file name
  bool operator==(const RecordKeys&) const = default;
};

// Parses "image=KEY,label=KEY,text=KEY" in any order; omitted parts keep their defaults. Throws
// std::invalid_argument with a clause.
RecordKeys parse_record_keys(const std::string& text);

struct RecordOptions {
  RecordKeys keys = {};
  std::string classes_file = {};  // class names, one per line; empty: none
  // The number of the first class, 0 or 1; empty: detected.
  std::optional<int> first_label = {};
  bool operator==(const RecordOptions&) const = default;
};

}  // namespace kiln
