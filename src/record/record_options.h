// What the files of a dataset do not say themselves: which features to read from records, which
// class a number stands for, and whether pictures are turned.
#pragma once

#include <optional>
#include <string>

#include "record/vocabulary.h"

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
  // Empty: kIgnore for an ImageDirectory, whose images the designer does not turn, else kApply.
  std::optional<Exif> exif = {};
  bool operator==(const RecordOptions&) const = default;
};

}  // namespace kiln
