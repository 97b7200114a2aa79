#include "commands/audit_scan.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "base/content_hash.h"
#include "data/dataset/image_bytes.h"
#include "data/image/image.h"

namespace kiln {
namespace {

constexpr double kWantedSide = 256;  // of what is measured

Image small_image(const std::string& bytes, ImagePart& part) {
  decode_part(
      bytes,
      [](ImageSize whole) {
        return WantedPart{{0, 0, whole},
                          std::max(1.0, std::max(whole.height, whole.width) / kWantedSide)};
      },
      part);
  const auto num_bytes =
      static_cast<std::ptrdiff_t>(part.region.size.height) * part.region.size.width * 3;
  return {part.region.size, {part.pixels.begin(), part.pixels.begin() + num_bytes}};
}

class Scan {
 public:
  explicit Scan(const Dataset& set) : set_(set) {
    images_.hashes.resize(set.samples.size());
    images_.measures.resize(set.samples.size());
    images_.looks.resize(set.samples.size());
  }

  // One of the threads; returns when no image is left, or one has failed.
  void work() noexcept {
    try {
      std::string bytes;
      ImagePart part;
      for (std::size_t i = next_++; i < set_.samples.size(); i = next_++) look_at(i, bytes, part);
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      next_ = set_.samples.size();
    }
  }

  ImageLooks take() {
    if (failure_) std::rethrow_exception(failure_);
    return std::move(images_);
  }

 private:
  void look_at(std::size_t i, std::string& bytes, ImagePart& part) {
    try {
      read_image_bytes(set_, i, bytes);
      images_.hashes[i] = content_hash(bytes);
      const Image image = small_image(bytes, part);
      images_.measures[i] = measure_image(image, part.whole);
      images_.looks[i] = look_of(image);
    } catch (const ImageFault&) {  // told when the network is to see it
    }
  }

  const Dataset& set_;
  ImageLooks images_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

ImageLooks look_at_images(const Dataset& set, int num_threads) {
  Scan scan(set);
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < num_threads; ++i) threads.emplace_back([&] { scan.work(); });
    scan.work();
  }
  return scan.take();
}

}  // namespace kiln
