// A source whose bytes are in memory, and come a few at once.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "data/archive/record_reader.h"

namespace kiln {

class TextSource : public ByteSource {
 public:
  explicit TextSource(std::string bytes, std::size_t at_once = SIZE_MAX)
      : bytes_(std::move(bytes)), at_once_(at_once) {}
  std::size_t read(char* target, std::size_t size) override {
    const std::size_t count = std::min({size, at_once_, bytes_.size() - at_});
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), count, target);
    at_ += count;
    return count;
  }

 private:
  std::string bytes_;
  std::size_t at_once_;
  std::size_t at_ = 0;
};

}  // namespace kiln
