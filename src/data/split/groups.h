// Groups the images of a dataset that belong together, so that no image is judged by a model that
// was trained on another image of its group, and finds those that a split tears apart.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/image/image.h"

namespace kiln {

inline constexpr std::size_t kMaxNamedOfSplit = 5;  // classes or pairs of images in a message

// Finds images of the same picture in other sizes, formats and qualities.
//
// Each image gets two fingerprints: 63 bits that say which of its lowest frequencies are above
// their median (Zauner, "Implementation and benchmarking of perceptual image hash functions",
// 2010), and a thumbnail. The bits find candidates without comparing all pairs (multi-index
// hashing: Norouzi, Punjani and Fleet, "Fast search in Hamming space with multi-index hashing",
// CVPR 2012); the thumbnails decide. Pictures that are cropped, rotated, mirrored or recolored are
// not found, nor are nearly empty ones, which all look alike.
struct LookPrint {
  static constexpr int kSide = 8;

  bool is_empty = true;    // no fingerprint, or a nearly empty image
  std::uint64_t bits = 0;  // images that look alike differ in few bits
  int side = 0;            // shorter side of the image, in pixels
  double contrast = 0;     // standard deviation of the thumbnail's samples
  std::array<std::uint8_t, 3 * kSide* kSide> thumbnail = {};  // RGB, [8, 8, 3]
};

// The print of an image of any size. Pure.
LookPrint look_of(const Image& image);

// Whether both show the same picture: their bits differ in at most kMaxBits places, and their
// thumbnails by little, relative to their contrast and to the image sizes.
constexpr int kMaxBits = 11;
bool look_alike(const LookPrint& a, const LookPrint& b);

using ImagePair = std::pair<std::uint32_t, std::uint32_t>;

// Pairs that look alike, each with the lower number first, sorted by the second number. For images
// that all look alike there are only as many pairs as connect them, one fewer than images; so the
// pairs tell which images belong together. No pair that look_alike() accepts is missed. 20,000
// photos of different subjects take a fraction of a second on one thread.
std::vector<ImagePair> near_duplicates(const std::vector<LookPrint>& looks);

// Disjoint sets of the numbers 0 to count - 1. The root of a set is its smallest member.
class UnionFind {
 public:
  explicit UnionFind(std::size_t count) : parents_(count) {
    std::iota(parents_.begin(), parents_.end(), std::uint32_t{0});
  }

  std::uint32_t root_of(std::uint32_t i) {
    while (parents_[i] != i) i = parents_[i] = parents_[parents_[i]];
    return i;
  }

  // Returns false if both were in the same set already.
  bool unite(std::uint32_t a, std::uint32_t b) {
    a = root_of(a);
    b = root_of(b);
    parents_[std::max(a, b)] = std::min(a, b);
    return a != b;
  }

 private:
  std::vector<std::uint32_t> parents_;
};

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
  // its size in the file, and the file's bytes. May be empty; called from any thread.
  std::function<void(std::size_t i, const Image& image, ImageSize whole, std::string_view bytes)>
      visit = {};
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

// One pass over the images of datasets, numbered as if they were one, to hash their bytes and
// fingerprint their looks. Reads and decodes all images if there are at most kMaxDecodedImages, or
// with `decode_all`; the hashes of images that can be decoded are stored in the samples, for the
// loader. With more images, a hash is computed only if another image starts with the same 16 KiB,
// `visit` is not called, and nothing is stored in the samples. An image that cannot be read has no
// hash, one that cannot be decoded no print; the loader will report why. Throws std::system_error
// if memory or descriptors are exhausted.
ScannedImages scan_images(const std::vector<Dataset*>& sets, const ScanPlan& plan);

// The lower number comes first in each pair. For images that are all alike there are only as many
// pairs as it takes to connect them.
struct DuplicatePairs {
  std::vector<ImagePair> exact;  // the same bytes
  std::vector<ImagePair> near;   // the same picture; each is the first image with its bytes
};

DuplicatePairs find_duplicates(const ScannedImages& scanned);

// The group number of each image, from 0, in the order of the groups' first images. Exact and near
// duplicates are in one group, and so are images for whose path (their name in the set) `group_by`
// gives the same group (base/path_pattern.h); an empty `group_by` groups nothing. With `as_listed`,
// so are those that a list puts into one. Throws std::invalid_argument if `group_by` is not a valid
// pattern.
std::vector<std::uint32_t> groups_of(const Dataset& set, const DuplicatePairs& pairs,
                                     const std::string& group_by, bool as_listed = true);

// Throws Error kUserError if a `group_by` that is not empty matches no path of the set; notes the
// paths that it does not match.
void check_pattern(const std::string& group_by, Dataset& set);

// A sentence on the groups of a list, or of two, that have images in both sets, for which the
// validation accuracy is optimistic; empty if there are none.
std::string note_of_torn_groups(const Dataset& train, const Dataset& valid);

// An image whose bytes are those of another, and what is said of it.
struct TwinImage {
  std::uint64_t hash = 0;  // content_hash()
  bool validates = false;
  std::string label, in_words;  // "'a.jpg' (cat, training)"
};

void visit_fields(Is<TwinImage> auto& twin, auto&& field) {
  fields(field, "hash", twin.hash, "validates", twin.validates, "label", twin.label, "in_words",
         twin.in_words);
}

// As far as they are known; else 0.
std::vector<std::uint64_t> hashes_of(const SampleTable& samples);

// The hashes that are there more than once, in order. 0 is none.
std::vector<std::uint64_t> repeated_hashes(std::vector<std::uint64_t> hashes);

// The labeled images of a set whose hash is one of `wanted`, which are in order. `part`: one of the
// two, or nothing where there is one set.
inline constexpr std::string_view kTrainingPart = ", training", kValidationPart = ", validation";
std::vector<TwinImage> twins_in(const Dataset& set, std::span<const std::uint64_t> hashes,
                                const std::vector<std::uint64_t>& wanted,
                                std::string_view part = {});

struct Twins {
  long long num_valid_in_train = 0;  // validation images with the bytes of a training image
  // On images with the same bytes and different labels, with the first two; empty: there are none.
  std::string contradictions;
};
Twins twins_among(std::vector<TwinImage> images);

// Twins::contradictions of a set. `hashes` are by image; 0: unknown.
std::string note_of_contradictions(const Dataset& set, std::span<const std::uint64_t> hashes);

// Images of the same picture that are not all in one part of a split, or not all in one of two
// datasets, so that a model is tested on images it has seen.
struct Leak {
  bool same_bytes = false;  // two in different parts have the same bytes; otherwise they look alike
  std::vector<std::uint32_t> images;  // two or more, in order
};

// `parts` has the part of each image. Leaks are in the order of their first images.
std::vector<Leak> find_leaks(const DuplicatePairs& pairs, const std::vector<std::uint8_t>& parts);

// Images of `valid` are numbered after those of `train`. Reads both, as scan_images() does.
std::vector<Leak> leaks_between(Dataset& train, Dataset& valid, const ScanPlan& scan);

}  // namespace kiln
