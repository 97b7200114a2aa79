// One pass over the images of one or two datasets: what their bytes are, and what they look like.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/image/image.h"
#include "data/split/near_duplicates.h"

namespace kiln {

// Of more images only the bytes are read, and of most of them only the first, unless asked for.
constexpr std::size_t kMostDecodedImages = 20'000;

struct ScanPlan {
  int num_threads = 1;
  // By how much an image of this size may be decoded smaller, 1 or more: at full, half, quarter
  // resolution and so on. Empty: 128 pixels on the shorter side stay, if the file has as many.
  std::function<double(ImageSize whole)> shrink = {};
  // Of every image that can be decoded: all of it, by `shrink` at most, and the size that it has
  // in the file. May be empty; any thread.
  std::function<void(std::size_t i, const Image& image, ImageSize whole)> visit = {};
  bool decode_all = false;  // also of more than kMostDecodedImages
  // How many images are done, of how many. May be empty; one thread at a time.
  std::function<void(std::size_t done, std::size_t all)> progress = {};
};

// By image.
struct ScannedImages {
  std::vector<std::uint64_t> hashes;  // content_hash() of the bytes; 0: unknown
  std::vector<LookPrint> looks;       // empty: more than kMostDecodedImages, not decoded
};

// Up to kMostDecodedImages, or with `decode_all` any, are read and decoded; the hashes of those
// that decode stay in `set.samples`, for the loader. Of more images a hash is known only where
// another image begins with the same 16 KiB, `visit` is not called, and the samples keep nothing.
// An image that cannot be read has no hash, one that cannot be decoded no print: the loader will
// say why. Throws std::system_error if memory or descriptors are exhausted.
ScannedImages scan_images(Dataset& set, const ScanPlan& plan);

// The same of two datasets as if they were one: images of the second have the numbers that follow
// those of the first.
ScannedImages scan_images(Dataset& first, Dataset& second, const ScanPlan& plan);

}  // namespace kiln
