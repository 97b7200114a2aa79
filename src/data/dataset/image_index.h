// What is cached about a dataset between runs: its images and their sizes.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

// The index of a dataset: a file with its list of images, so that the next run need not read the
// folders again. It holds the result of read_labeled_dataset(), the image sizes once they have been
// read, and a stamp of every folder and file that was read. Layout: kMagic, FNV-1a of the rest, the
// rest; numbers as in memory. An index from a different build is rebuilt.
//
// Nothing is written into the dataset. The index is in the user's cache under a name derived from
// the dataset's real path; only shards written by `kiln pack` contain their own.
struct IndexUse {
  // Where it is, for a dataset of any size; for tests and measurements. Empty: as above.
  std::filesystem::path file = {};
  bool with_sizes = false;  // also run scan_sizes() with kCommon
  RecordOptions records = {};
  std::filesystem::path contents = {};  // as in DatasetContext; such a set has no index
};

// As read_labeled_dataset(), but uses the index if it is current. A stale or damaged index is
// rebuilt, with a note. The index is written atomically, so jobs that start together may share it.
// It is not written to the cache for fewer than 1000 images, nor for a list (label_list.h), nor if
// a file changed within the last two seconds, since its timestamp might not reveal a later change.
Dataset read_indexed_dataset(const std::filesystem::path& root, const std::string& name,
                             const IndexUse& use);

// The index file in a folder of shards written by `kiln pack`.
inline constexpr const char* kShardIndexName = ".kiln-shards";

// $XDG_CACHE_HOME/kiln/NAME-HASH.index, else under ~/.cache; empty if neither is set.
std::filesystem::path index_in_cache(const std::filesystem::path& root);

// Throws Error kFailedToWriteOutputs.
void write_index(const std::filesystem::path& file, const Dataset& set);

// Image sizes are read from the headers, in parallel.

// kCommon: stops as soon as two sizes differ.
enum class SizesWanted { kAll, kCommon };

// Fills in the sizes that the list does not give, gives wrong (with a note; a few images are looked
// at), or gives of images that are decoded with another `exif`, and returns how many. If a header
// cannot be read, the size stays unknown; the loader will report that image.
std::size_t scan_sizes(Dataset& set, SizesWanted wanted);

// How many of the first `most` images have an EXIF orientation other than upright; one after a
// PNG's pixels does not count.
struct TurnedImages {
  std::size_t turned = 0, looked_at = 0;
};
TurnedImages turned_images(const Dataset& set, std::size_t most);

// A sentence if a few images all over the set are nearly black, as those that cameras of 10 to 14
// bits write with 16, of which the high byte says little; or have one color each, as symbols whose
// transparency is dropped. Empty: they do not.
std::string note_of_lost_contrast(const Dataset& set);

// The median of `measure` over at most `most` images all over the set, whose headers are read
// unless their sizes are known. Empty: none can be read, or it is a stream.
std::optional<double> median_of_sizes(const Dataset& set, std::size_t most,
                                      const std::function<double(ImageSize)>& measure);
// The share of a typical image that a center crop to the shape of `output` cuts away, by the aspect
// ratios alone.
std::optional<double> share_cut_away(const Dataset& set, ImageSize output);

// The size that all images of all sets share; empty if they differ or none is known.
std::optional<ImageSize> common_size(const std::vector<const Dataset*>& sets);

// The size of the images of a run unless the user names one. An ImageDirectory of one size keeps
// it, as the designer's component does; other images do if no side is above 256 pixels. All others
// become 224 x 224.
struct AutomaticSize {
  ImageSize size;
  bool is_stored = false;  // the size that all images have
  std::string reason;      // "all images have this size"
};
// Of datasets with sizes from scan_sizes(); the first one decides which rule applies.
AutomaticSize automatic_size(const std::vector<const Dataset*>& sets);

}  // namespace kiln
