// The hashes of the images that the ranks have read, gathered: for checkpoints, and for
// what a trained model says it has seen.
//
// However many epochs have passed, each image is told by one rank: a training image by the one that
// reads it in the first epoch, a validation image by the one whose shard it is in. Training images
// that the first epoch leaves out are told by all ranks that have read them since. A bad image has
// no hash; one that was only read ahead counts as read.
#pragma once

#include <string>
#include <string_view>

#include "data/dataset/dataset.h"
#include "run/plan/prepare.h"
#include "store/seen_images.h"

namespace kiln {

// The hashes that this rank contributes to a checkpoint: 16 bytes for each image.
std::string pack_train_hashes(const TrainingJob& job);
std::string pack_valid_hashes(const TrainingJob& job);
// `packed` is of images of `samples`, read before.
void unpack_hashes(std::string_view packed, SampleTable& samples);

// What all ranks have read. Exchanges 8 bytes per image. A collective; complete on rank 0 only.
SeenImages gather_seen_images(const TrainingJob& job);

}  // namespace kiln
