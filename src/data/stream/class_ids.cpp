#include "data/stream/class_ids.h"

#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace kiln {

ClassIds::ClassIds(const std::vector<std::string>& classes, int first, bool reads_numbers,
                   std::string stream)
    : first_(first), reads_numbers_(reads_numbers), stream_(std::move(stream)) {
  for (std::size_t id = 0; id < classes.size(); ++id) {
    ids_.emplace(classes[id], static_cast<int>(id));
    if (is_class_number(classes[id]) &&
        class_number(classes[id]) - first != static_cast<std::int64_t>(id))
      has_confusing_names_ = true;
  }
}

int ClassIds::of(const RawLabel& label, const std::string& image) const {
  if (label.text.empty() && label.number < 0)
    throw Error(ErrorCode::kNotLabeledDataset,
                stream_ + ": the image '" + printable(image) +
                    "' has no label. Give a tar with a .cls file next to each image or a folder "
                    "for each class, or records with a label.");
  const auto named = ids_.find(label.text);
  if (named != ids_.end() && !(label.is_written && reads_numbers_)) return named->second;
  std::int64_t number = label.number;
  if (label.is_written && (reads_numbers_ || !has_confusing_names_))
    number = class_number(label.text);
  if (number >= first_ && static_cast<std::size_t>(number - first_) < ids_.size())
    return static_cast<int>(number - first_);
  const std::string shown = label.text.empty() ? std::to_string(label.number) : label.text;
  const bool is_number = is_class_number(shown);
  throw Error(ErrorCode::kInvalidDataset,
              stream_ + ": the image '" + printable(image) + "' has the label '" + excerpt(shown) +
                  "', which is not one of the " + std::to_string(ids_.size()) +
                  " classes from --classes or else from the validation images" +
                  (is_number ? ", whose numbers count from " + std::to_string(first_) : "") +
                  ". Give a --classes file that lists it" +
                  (is_number ? ", give --first-label if they do not" : "") +
                  ", or remove the image.");
}

}  // namespace kiln
