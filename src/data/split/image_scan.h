// One pass over the images of one or two datasets, to hash their bytes and fingerprint their looks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/image/image.h"
#include "data/split/near_duplicates.h"

namespace kiln {

// With more images than this, images are not decoded unless requested, and of most of them only the
// first bytes are read.
constexpr std::size_t kMaxDecodedImages = 20'000;

struct ScanPlan {
  int num_threads = 1;
  // The factor, 1 or more, by which an image of this size may be reduced when decoded: to full,
  // half, quarter resolution and so on. Empty: keeps 128 pixels on the shorter side, if the file
  // has that many.
  std::function<double(ImageSize whole)> shrink = {};
  // Called for every image that can be decoded: with the whole image, reduced by at most `shrink`,
  // and its size in the file. May be empty; called from any thread.
  std::function<void(std::size_t i, const Image& image, ImageSize whole)> visit = {};
  bool decode_all = false;  // even if there are more than kMaxDecodedImages
  // Called with the number of images done and the total. May be empty; called from one thread at a
  // time.
  std::function<void(std::size_t done, std::size_t all)> progress = {};
};

// Results of a scan, by image.
struct ScannedImages {
  std::vector<std::uint64_t> hashes;  // content_hash() of the bytes; 0: unknown
  std::vector<LookPrint> looks;  // empty: not decoded, as there are more than kMaxDecodedImages
};

// Reads and decodes all images if there are at most kMaxDecodedImages, or with `decode_all`; the
// hashes of images that can be decoded are stored in `set.samples`, for the loader. With more
// images, a hash is computed only if another image starts with the same 16 KiB, `visit` is not
// called, and nothing is stored in the samples. An image that cannot be read has no hash, one that
// cannot be decoded no print; the loader will report why. Throws std::system_error if memory or
// descriptors are exhausted.
ScannedImages scan_images(Dataset& set, const ScanPlan& plan);

// The same for two datasets as if they were one; images of the second are numbered after those of
// the first.
ScannedImages scan_images(Dataset& first, Dataset& second, const ScanPlan& plan);

}  // namespace kiln
