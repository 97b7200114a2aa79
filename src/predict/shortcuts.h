// Shortcuts: labels that can be read from what comes with an image, as its size or brightness,
// without looking at what it shows. A network may learn these instead, and fail on other images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset/dataset.h"
#include "predict/image_facts.h"
#include "record/run_record.h"

namespace kiln {

// What tells significantly more labels than the largest class does: each of the facts alone, those
// that tell most first; after them all together. For each a decision tree of at most three
// questions, chosen by Gini impurity (L. Breiman, J. Friedman, R. Olshen and C. Stone,
// Classification and Regression Trees, 1984), in five folds: a label is told by the tree of the
// other folds. Significant: p < 0.001 in the exact binomial test. Of each group one image counts,
// so that those that do are independent; so do only images with facts, equally many each, and a
// label. All by image; without `groups` each is one of its own.
std::vector<Shortcut> shortcuts_of(std::span<const ImageFacts> facts,
                                   std::span<const std::int32_t> labels,
                                   std::span<const std::uint32_t> groups);

// The same by the files of at most 2,000 images all over a set, of which it reads the headers and
// decodes none. `groups`: by image of the set, or empty. None for streams and for several labels an
// image.
std::vector<Shortcut> shortcuts_in_files(const Dataset& set, std::span<const std::uint32_t> groups);

}  // namespace kiln
