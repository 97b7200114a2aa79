#include "data/image_items.h"

#include <cstring>
#include <stdexcept>

namespace kiln {
namespace {

std::string_view take(std::string_view& bytes, std::uint64_t size) {
  if (size > bytes.size()) throw std::length_error("the image list is cut short");
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return taken;
}

template <typename Column>
void append_column(std::string& bytes, const Column& column) {
  const std::uint64_t count = column.size();
  bytes.append(reinterpret_cast<const char*>(&count), sizeof count);
  bytes.append(reinterpret_cast<const char*>(column.data()),
               count * sizeof(typename Column::value_type));
}

template <typename Column>
void take_column(std::string_view& bytes, Column& column) {
  std::uint64_t count = 0;
  std::memcpy(&count, take(bytes, sizeof count).data(), sizeof count);
  if (count > bytes.size()) throw std::length_error("the image list is cut short");
  const std::string_view taken = take(bytes, count * sizeof(typename Column::value_type));
  column.resize(count);
  if (count > 0) std::memcpy(column.data(), taken.data(), taken.size());
}

}  // namespace

template <typename Visit>
void ImageItems::visit_columns(auto& items, Visit&& visit) {
  visit(items.names_);
  visit(items.ends_);
  visit(items.labels_);
  visit(items.sizes_);
  visit(items.ids_);
  visit(items.members_);
}

std::string_view ImageItems::file_name(std::size_t i) const {
  const std::uint64_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(names_).substr(begin, ends_[i] - begin);
}

ImageItem ImageItems::operator[](std::size_t i) const {
  ImageItem item{.file_name = file_name(i),
                 .label = labels_[i],
                 .id = ids_.empty() ? static_cast<std::int64_t>(i) : ids_[i],
                 .size = {}};
  if (sizes_[i].height > 0) item.size = sizes_[i];
  return item;
}

void ImageItems::push_back(const ImageItem& item) {
  const auto number = static_cast<std::int64_t>(size());
  if (item.id != number && ids_.empty()) {
    for (std::int64_t i = 0; i < number; ++i) ids_.push_back(i);
  }
  if (item.id != number || !ids_.empty()) ids_.push_back(item.id);
  names_ += item.file_name;
  ends_.push_back(names_.size());
  labels_.push_back(item.label);
  sizes_.push_back(item.size.value_or(ImageSize{}));
}

void ImageItems::push_back(const ImageItem& item, const ArchiveMember& member) {
  push_back(item);
  members_.push_back(member);
}

void ImageItems::reserve(std::size_t count, std::size_t name_bytes) {
  names_.reserve(names_.size() + name_bytes);
  ends_.reserve(size() + count);
  labels_.reserve(size() + count);
  sizes_.reserve(size() + count);
}

void ImageItems::remove_unlabeled() {
  ImageItems kept;
  for (std::size_t i = 0; i < size(); ++i) {
    if (labels_[i] < 0) continue;
    if (members_.empty()) {
      kept.push_back((*this)[i]);
    } else {
      kept.push_back((*this)[i], members_[i]);
    }
  }
  *this = std::move(kept);
}

void ImageItems::shrink_to_fit() {
  visit_columns(*this, [](auto& column) { column.shrink_to_fit(); });
}

std::size_t ImageItems::memory_bytes() const {
  std::size_t bytes = 0;
  visit_columns(*this, [&](const auto& column) {
    bytes += column.capacity() * sizeof(typename std::decay_t<decltype(column)>::value_type);
  });
  return bytes;
}

void ImageItems::append_to(std::string& bytes) const {
  visit_columns(*this, [&](const auto& column) { append_column(bytes, column); });
}

ImageItems ImageItems::take_from(std::string_view& bytes) {
  ImageItems items;
  visit_columns(items, [&](auto& column) { take_column(bytes, column); });
  const std::size_t count = items.size();
  const auto fits = [&](std::size_t size) { return size == 0 || size == count; };
  bool good = items.ends_.size() == count && items.sizes_.size() == count &&
              fits(items.ids_.size()) && fits(items.members_.size()) &&
              (count == 0 ? 0 : items.ends_.back()) == items.names_.size();
  for (std::size_t i = 1; good && i < count; ++i) good = items.ends_[i - 1] <= items.ends_[i];
  if (!good) throw std::length_error("the image list contradicts itself");
  return items;
}

}  // namespace kiln
