// The images of a set in little memory: the name and at most 64 bytes more for each, archive
// members included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/image.h"

namespace kiln {

// One image as it is added or looked at; `file_name` of the latter is valid until items are added.
struct ImageItem {
  std::string_view file_name;     // relative to the root, as listed; in an archive: the member
  int label = -1;                 // index into classes; -1: no label
  std::int64_t id = 0;            // as listed, or the running number
  std::optional<ImageSize> size;  // where the list gives it
};

// Where the bytes of an archive's member stand.
struct ArchiveMember {
  enum class Packing : std::uint8_t {
    kPlain,     // `stored_size` bytes from `offset` (tar)
    kStored,    // at `offset` stands a zip local header; the bytes follow it and have `checksum`
    kDeflated,  // likewise, deflated (RFC 1951)
  };

  std::uint64_t offset = 0;
  std::uint64_t stored_size = 0;
  std::uint64_t size = 0;
  std::uint32_t checksum = 0;  // CRC-32 of the zip kinds
  std::uint16_t archive = 0;   // index into ImageSet::archives
  Packing packing = Packing::kPlain;
};

class ImageItems {
 public:
  class Iterator;

  std::size_t size() const { return labels_.size(); }
  bool empty() const { return labels_.empty(); }
  ImageItem operator[](std::size_t i) const;
  Iterator begin() const;
  Iterator end() const;

  std::string_view file_name(std::size_t i) const;
  int label(std::size_t i) const { return labels_[i]; }
  // nullptr: a file of its own.
  const ArchiveMember* member(std::size_t i) const {
    return members_.empty() ? nullptr : &members_[i];
  }

  void push_back(const ImageItem& item);
  void push_back(const ImageItem& item, const ArchiveMember& member);  // then all are members
  // Room for so many more, whose names have so many bytes together.
  void reserve(std::size_t count, std::size_t name_bytes);
  void set_label(std::size_t i, int label) { labels_[i] = label; }
  void set_size(std::size_t i, ImageSize size) { sizes_[i] = size; }
  void remove_unlabeled();
  void shrink_to_fit();
  std::size_t memory_bytes() const;

  // Appended to `bytes` for a reader of the same build; the taker removes what it takes and throws
  // std::length_error for bytes that are no such list.
  void append_to(std::string& bytes) const;
  static ImageItems take_from(std::string_view& bytes);

 private:
  template <typename Visit>
  static void visit_columns(auto& items, Visit&& visit);

  std::string names_;                // end to end
  std::vector<std::uint64_t> ends_;  // of each name
  std::vector<std::int32_t> labels_;
  std::vector<ImageSize> sizes_;   // height 0: not known
  std::vector<std::int64_t> ids_;  // empty: every id is the running number
  std::vector<ArchiveMember> members_;
};

class ImageItems::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = ImageItem;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = ImageItem;

  Iterator(const ImageItems& items, std::size_t i) : items_(&items), i_(i) {}
  ImageItem operator*() const { return (*items_)[i_]; }
  Iterator& operator++() {
    ++i_;
    return *this;
  }
  bool operator==(const Iterator& other) const { return i_ == other.i_; }

 private:
  const ImageItems* items_;
  std::size_t i_;
};

inline ImageItems::Iterator ImageItems::begin() const {
  return {*this, 0};
}

inline ImageItems::Iterator ImageItems::end() const {
  return {*this, size()};
}

}  // namespace kiln
