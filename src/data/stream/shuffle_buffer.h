// Shuffles a stream: each image that leaves is drawn from those in the buffer. A pure function of
// the key and the order of arrival. Holds at most `most` images, fewer if they average more than 1
// MiB each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/random.h"
#include "data/stream/record_stream.h"

namespace kiln {

struct Arrival {
  StreamRecord record;
  std::uint32_t number = 0;  // in the epoch, in order of arrival
  int label = 0;
};

class ShuffleBuffer {
 public:
  // With `most` 1 the order does not change.
  ShuffleBuffer(std::size_t most, const RandomSequence& key) : most_(most), random_(key) {}

  static std::size_t most_bytes(std::size_t most) { return most << 20; }

  bool empty() const { return images_.empty(); }
  bool is_full() const { return images_.size() >= most_ || bytes_ >= most_bytes(most_); }
  void push(Arrival image) {
    bytes_ += image.record.bytes.size();
    images_.push_back(std::move(image));
  }
  // The buffer must not be empty.
  Arrival pop() {
    std::swap(images_[random_.below(images_.size())], images_.back());
    Arrival image = std::move(images_.back());
    images_.pop_back();
    bytes_ -= image.record.bytes.size();
    return image;
  }

 private:
  const std::size_t most_;
  RandomSequence random_;
  std::vector<Arrival> images_;
  std::size_t bytes_ = 0;
};

}  // namespace kiln
