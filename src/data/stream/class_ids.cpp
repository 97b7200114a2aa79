#include "data/stream/class_ids.h"

#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace kiln {

void refuse_unlabeled(const std::string& stream, const std::string& image) {
  throw Error(ErrorCode::kNotLabeledDataset,
              stream + ": the image '" + printable(image) +
                  "' has no label. Give a tar with a .cls file next to each image or a folder for "
                  "each class, or records with a label.");
}

ClassIds::ClassIds(const std::vector<std::string>& classes, int first, std::string stream)
    : first_(first), stream_(std::move(stream)) {
  for (std::size_t id = 0; id < classes.size(); ++id)
    ids_.emplace(classes[id], static_cast<int>(id));
}

int ClassIds::of(const std::string& label, const std::string& image) const {
  if (label.empty()) refuse_unlabeled(stream_, image);
  if (const auto found = ids_.find(label); found != ids_.end()) return found->second;
  int number = -1;
  const auto [end, fault] = std::from_chars(label.data(), label.data() + label.size(), number);
  const bool is_number = fault == std::errc() && end == label.data() + label.size();
  if (is_number && number >= first_ && static_cast<std::size_t>(number - first_) < ids_.size())
    return number - first_;
  throw Error(ErrorCode::kInvalidDataset,
              stream_ + ": the image '" + printable(image) + "' has the label '" + excerpt(label) +
                  "', which is not one of the " + std::to_string(ids_.size()) +
                  " classes from --classes or else from the validation images" +
                  (is_number ? ", whose numbers count from " + std::to_string(first_) : "") +
                  ". Give a --classes file that lists it" +
                  (is_number ? ", give --first-label if they do not" : "") +
                  ", or remove the image.");
}

}  // namespace kiln
