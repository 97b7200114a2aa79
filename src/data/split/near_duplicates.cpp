#include "data/split/near_duplicates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>

#include "data/image/resample.h"

namespace kiln {
namespace {

constexpr int kGraySide = 32;  // of the image whose frequencies are computed
constexpr int kFrequencies = 8;
constexpr int kBands = 4, kBandBits = 16;
constexpr int kBandFlips = kMaxBits / kBands;  // some band differs in at most this many bits
constexpr double kLeastContrast = 3;           // standard deviation of gray levels (0 to 255)
constexpr double kLeastAllowed = 2;  // in levels (0 to 255), for rounding and quantization

// Returns the largest root mean square difference of two thumbnails, relative to their contrast, at
// which images look alike. `side` is the shorter side of the smaller image, in pixels. This covers
// the changes that other sizes and JPEG qualities down to 30 made to 284 photos, and 99 of 100 of
// those made to CIFAR-10. The smaller an image, the more of its thumbnail is codec noise.
double max_difference(int side) {
  return std::clamp(9.0 / side, 0.12, 0.24);
}

using Gray = std::array<float, kGraySide * kGraySide>;

// [kFrequencies, kGraySide]: the rows of the DCT-II with the lowest frequencies.
const std::array<float, kFrequencies * kGraySide>& cosines() {
  static const auto kTable = [] {
    std::array<float, kFrequencies * kGraySide> table{};
    for (int f = 0; f < kFrequencies; ++f)
      for (int x = 0; x < kGraySide; ++x)
        table[f * kGraySide + x] =
            static_cast<float>(std::cos(std::numbers::pi * f * (x + 0.5) / kGraySide));
    return table;
  }();
  return kTable;
}

// Bit 8 v + u says whether frequency (v, u) is above the median. The bit of (0, 0), the mean, is 0.
std::uint64_t bits_of(const Gray& gray) {
  const auto& table = cosines();
  std::array<float, kFrequencies * kGraySide> rows{};  // [vertical frequency, x]
  for (int v = 0; v < kFrequencies; ++v)
    for (int y = 0; y < kGraySide; ++y)
      for (int x = 0; x < kGraySide; ++x)
        rows[v * kGraySide + x] += table[v * kGraySide + y] * gray[y * kGraySide + x];
  std::array<float, kFrequencies * kFrequencies> found{};
  for (int v = 0; v < kFrequencies; ++v)
    for (int u = 0; u < kFrequencies; ++u)
      for (int x = 0; x < kGraySide; ++x)
        found[v * kFrequencies + u] += table[u * kGraySide + x] * rows[v * kGraySide + x];
  std::array<float, kFrequencies * kFrequencies - 1> sorted{};
  std::copy(found.begin() + 1, found.end(), sorted.begin());
  std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
  const float median = sorted[sorted.size() / 2];
  std::uint64_t bits = 0;
  for (std::size_t i = 1; i < found.size(); ++i)
    if (found[i] > median) bits |= std::uint64_t{1} << i;
  return bits;
}

// Returns the standard deviation of the samples.
template <typename Samples>
double contrast_of(const Samples& samples) {
  double sum = 0, squares = 0;
  for (const auto sample : samples) {
    sum += sample;
    squares += static_cast<double>(sample) * sample;
  }
  const auto count = static_cast<double>(samples.size());
  return std::sqrt(std::max(0.0, squares / count - sum / count * (sum / count)));
}

bool thumbnails_agree(const LookPrint& a, const LookPrint& b) {
  const double allowed = std::max(
      kLeastAllowed, max_difference(std::min(a.side, b.side)) * std::min(a.contrast, b.contrast));
  const auto most =
      static_cast<std::int64_t>(allowed * allowed * static_cast<double>(a.thumbnail.size()));
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < a.thumbnail.size(); ++i) {
    const int difference = a.thumbnail[i] - b.thumbnail[i];
    sum += difference * difference;
  }
  return sum <= most;
}

// Returns the 16-bit patterns with at most kBandFlips bits set.
const std::vector<std::uint32_t>& flips() {
  static const std::vector<std::uint32_t> kFlips = [] {
    std::vector<std::uint32_t> patterns;
    for (std::uint32_t pattern = 0; pattern < 1U << kBandBits; ++pattern)
      if (std::popcount(pattern) <= kBandFlips) patterns.push_back(pattern);
    return patterns;
  }();
  return kFlips;
}

std::uint32_t band_of(const LookPrint& look, int band) {
  return static_cast<std::uint32_t>(look.bits >> (band * kBandBits)) & 0xffff;
}

// An index of images by one band of their bits: those with pattern p are images[begins[p]] to
// images[begins[p + 1]] (exclusive), in ascending order.
struct BandIndex {
  BandIndex(const std::vector<LookPrint>& looks, int band)
      : begins((1U << kBandBits) + 1), num_united(1U << kBandBits) {
    for (const LookPrint& look : looks)
      if (!look.is_empty) ++begins[band_of(look, band) + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    images.resize(begins.back());
    std::vector<std::uint32_t> next(begins.begin(), begins.end() - 1);
    for (std::uint32_t i = 0; i < looks.size(); ++i)
      if (!looks[i].is_empty) images[next[band_of(looks[i], band)]++] = i;
  }

  std::vector<std::uint32_t> begins, images;
  // By pattern: how many of its first images are known to be in one group.
  std::vector<std::uint32_t> num_united;
};

// Unites image `i` with the earlier images that have this pattern and look like it.
void join_pattern(const std::vector<LookPrint>& looks, std::uint32_t i, std::uint32_t pattern,
                  BandIndex& index, UnionFind& united, std::vector<ImagePair>& pairs) {
  const std::uint32_t begin = index.begins[pattern], end = index.begins[pattern + 1];
  if (begin == end) return;
  std::uint32_t& known = index.num_united[pattern];
  const auto root_at = [&](std::uint32_t at) { return united.root_of(index.images[at]); };
  // Skips images that are known to be in one group, so that many images that all look alike are not
  // compared with each other.
  while (begin + known < end && index.images[begin + known] < i &&
         root_at(begin + known) == root_at(begin))
    ++known;
  const bool skips = root_at(begin) == united.root_of(i);
  for (std::uint32_t at = begin + (skips ? known : 0); at < end && index.images[at] < i; ++at) {
    const std::uint32_t other = index.images[at];
    if (root_at(at) == united.root_of(i) || !look_alike(looks[other], looks[i])) continue;
    united.unite(other, i);
    pairs.emplace_back(other, i);
    if (at < begin + known) at = begin + known - 1;
  }
}

}  // namespace

LookPrint look_of(const Image& image) {
  const ResampleAxis rows{.begin = 0,
                          .length = static_cast<double>(image.size.height),
                          .resized = kGraySide,
                          .first = 0,
                          .count = kGraySide};
  ResampleAxis columns = rows;
  columns.length = image.size.width;
  std::array<std::uint8_t, 3 * kGraySide * kGraySide> small{};
  Resampler().write({image.pixels.data(), {0, 0, image.size}}, rows, columns, false, small.data());
  Gray gray{};
  for (std::size_t i = 0; i < gray.size(); ++i)
    gray[i] = 0.299F * static_cast<float>(small[3 * i]) +
              0.587F * static_cast<float>(small[3 * i + 1]) +
              0.114F * static_cast<float>(small[3 * i + 2]);
  LookPrint look;
  look.is_empty = contrast_of(gray) < kLeastContrast;
  look.bits = bits_of(gray);
  look.side = std::min(image.size.height, image.size.width);
  constexpr int kCell = kGraySide / LookPrint::kSide;
  for (int y = 0; y < LookPrint::kSide; ++y)
    for (int x = 0; x < LookPrint::kSide; ++x)
      for (int c = 0; c < 3; ++c) {
        int sum = kCell * kCell / 2;
        for (int i = 0; i < kCell * kCell; ++i)
          sum += small[((y * kCell + i / kCell) * kGraySide + x * kCell + i % kCell) * 3 + c];
        look.thumbnail[(y * LookPrint::kSide + x) * 3 + c] =
            static_cast<std::uint8_t>(sum / (kCell * kCell));
      }
  look.contrast = contrast_of(look.thumbnail);
  return look;
}

bool look_alike(const LookPrint& a, const LookPrint& b) {
  return !a.is_empty && !b.is_empty && std::popcount(a.bits ^ b.bits) <= kMaxBits &&
         thumbnails_agree(a, b);
}

std::vector<ImagePair> near_duplicates(const std::vector<LookPrint>& looks) {
  std::vector<ImagePair> pairs;
  UnionFind united(looks.size());
  for (int band = 0; band < kBands; ++band) {
    BandIndex index(looks, band);
    for (std::uint32_t i = 0; i < looks.size(); ++i) {
      if (looks[i].is_empty) continue;
      const std::uint32_t mine = band_of(looks[i], band);
      for (const std::uint32_t flip : flips())
        join_pattern(looks, i, mine ^ flip, index, united, pairs);
    }
  }
  std::sort(pairs.begin(), pairs.end(), [](const ImagePair& a, const ImagePair& b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  });
  return pairs;
}

}  // namespace kiln
