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

ClassIds::ClassIds(const std::vector<std::string>& classes, std::string stream)
    : stream_(std::move(stream)) {
  for (std::size_t id = 0; id < classes.size(); ++id)
    ids_.emplace(classes[id], static_cast<int>(id));
}

int ClassIds::of(const std::string& label, const std::string& image, int first) const {
  if (label.empty()) refuse_unlabeled(stream_, image);
  if (const auto found = ids_.find(label); found != ids_.end()) return found->second;
  int number = -1;
  const auto [end, fault] = std::from_chars(label.data(), label.data() + label.size(), number);
  const bool is_number = fault == std::errc() && end == label.data() + label.size();
  if (is_number && number >= first && static_cast<std::size_t>(number - first) < ids_.size())
    return number - first;
  throw Error(ErrorCode::kInvalidDataset,
              stream_ + ": the image '" + printable(image) + "' has the label '" + excerpt(label) +
                  "', which is not one of the " + std::to_string(ids_.size()) +
                  " classes from --classes or else from the validation images. Give a --classes "
                  "file that lists it, or remove the image.");
}

}  // namespace kiln
