// Gathers the hashes of the images that the ranks have read, for checkpoints and for a trained
// model's list of seen images.
//
// Of images that all ranks share, each rank has a table; the largest hash found for an image
// counts, so an exchange takes 8 bytes for each image, however many ranks and epochs there are. If
// ranks have images of their own (--shard-by), each image is reported by one rank: a training image
// by the rank that reads it in the first epoch, a validation image by the rank whose shard contains
// it; training images that the first epoch leaves out by every rank that has read them since, and
// with --sample balanced so are all. Images of a stream are not reported. A bad image has no hash.
// An image that was only read ahead counts as read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/dataset/dataset.h"
#include "run/inputs/sources.h"
#include "run/prepare/plan.h"
#include "store/model_directory.h"

namespace kiln {

// The hashes that a checkpoint keeps, on rank 0: by rank, index and hash, 16 bytes for each image.
// Those of images that all ranks share are in the first one, which is then all. Collectives.
std::vector<std::string> gather_train_hashes(World& world, const Plan& plan,
                                             const Sources& sources);
std::vector<std::string> gather_valid_hashes(World& world, const Plan& plan,
                                             const Sources& sources);
// Puts the packed hashes back into `samples`, the table that they were taken from or a copy of it.
// Loaders may be reading its images.
void unpack_hashes(std::string_view packed, SampleTable& samples);

// Puts the hashes of each rank's images into the tables of all ranks that share the images, so that
// from then on each compares what it reads with what another rank has read. Call once, after the
// first epoch: a resumed run has them from its checkpoint. A collective.
void share_hashes(World& world, const Plan& plan, Sources& sources);

// Rank 0 warns about images whose bytes are not those that the run read before, with their number
// and the first names; each image once for each rank that finds it. A collective.
void warn_of_changed_images(World& world, Log& log, Sources& sources);

// The images that all ranks have read. A collective; complete on rank 0 only.
SeenImages gather_seen_images(World& world, const Plan& plan, const Sources& sources);

}  // namespace kiln
