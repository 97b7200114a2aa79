// What ranks exchange about their images. Collectives, which all ranks call in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/run_config.h"
#include "data/loader/batch_loader.h"
#include "data/split/groups.h"
#include "parallel/ranks/world.h"
#include "run/inputs/sources.h"

namespace kiln {

// By default only rank 0 has scanned the datasets: broadcasts them. With --shard-by none or train
// each rank has its own shard: merges the classes, and throws Error kInvalidDataset naming the
// ranks and differences if validation images that all ranks read are not the same. What all ranks
// read must pass require_same_data().
void share_sources(World& world, const DataConfig& config, Sources& sources, PixelPlan& pixels);

// Determines which images belong to this rank, and the number of steps per epoch, which is the same
// on all ranks. With --shard-by none or train, ranks of one host that were given the same folder
// divide its images; with host, so do those of all hosts, whose lists must be equal. Sets how many
// images of a stream an epoch has.
Division divide_images(World& world, const TrainConfig& config, Sources& sources);

// With --shard-by record and host: throws Error kInvalidDataset unless the ranks that divide a
// stream read the same one. `beginning` is Batches::beginning(), `name` the dataset's. A
// collective.
void require_one_stream(World& world, const Division& division, const std::string& name,
                        std::uint64_t beginning);

// Gathers the new image faults of all ranks, in rank order.
std::vector<BadImage> share_faults(World& world, const std::vector<BadImage>& mine);

// Images with the same bytes among those that the ranks have read: on rank 0; elsewhere nothing. Of
// sets that all ranks share, rank 0 must know the hashes (share_hashes()), and reads the training
// images that are left over; of others the ranks send theirs, 8 bytes for each image. A collective.
Twins find_twins(World& world, const Division& division, const Sources& sources);

// Whether ranks that read a dataset from the same paths find the same data there. Compares what is
// cheap: the sizes of the archives and the hashes of their first and last 64 KiB, which hold their
// first members and a zip's directory; the hashes of the first 256 KiB of 64 images, spread evenly
// over the list; and the numbers of images in up to 64 of their folders. What a rank cannot read is
// not compared, but found when it is used. All ranks must have the same list and open archives. A
// collective. Throws Error kInvalidDataset on rank 0 naming a rank and the first difference.
void require_same_data(World& world, const Dataset& set);

}  // namespace kiln
