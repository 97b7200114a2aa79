// Whether ranks that read a dataset from the same paths find the same data there.
#pragma once

#include "data/dataset/dataset.h"
#include "parallel/ranks/world.h"

namespace kiln {

// Compares what is cheap: the sizes of the archives and the hashes of their first and last 64 KiB,
// which hold their first members and a zip's directory; the hashes of the first 256 KiB of 64
// images, spread evenly over the list; and the numbers of images in up to 64 of their folders. What
// a rank cannot read is not compared, but found when it is used. All ranks must have the same list
// and open archives. A collective. Throws Error kInvalidDataset on rank 0 naming a rank and the
// first difference.
void require_same_data(World& world, const Dataset& set);

}  // namespace kiln
