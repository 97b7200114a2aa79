// Everything that a training run reads before it starts. Faults are collected and reported
// together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "data/loader/batch_loader.h"
#include "data/loader/sampler.h"
#include "data/split/split_dataset.h"
#include "data/transform/operations.h"
#include "model/weights/weight_source.h"
#include "store/model_directory.h"

namespace kiln {

// The split of --data-path, on ranks that have read the dataset.
struct InputSplit {
  std::string csv;      // the contents of split.csv
  std::string summary;  // for the log
  // The result of groups_of(), by image of `train` and of `valid`; empty with --split.
  std::vector<std::uint32_t> train_groups, valid_groups;
};

struct TrainingInputs {
  Shard train_shard, valid_shard;  // among all ranks, or those that share a part
  // This rank keeps one of every `keep_one_of` images of its stream: all, or with --shard-by record
  // or host its share of a stream that all ranks, or those of `train_part`, read.
  int keep_one_of = 1, keep_which = 0;
  // Equal on the ranks that were given the same training images: empty unless --shard-by is none,
  // train or host.
  std::string train_part;
  std::int64_t steps_per_epoch = 0;
  std::int64_t images_per_epoch() const { return steps_per_epoch * train_shard.images_per_step(); }
  Dataset train, valid;   // validation labels are training class ids
  bool is_split = false;  // both are parts of one dataset
  std::optional<InputSplit> split;
  // With --folds and no validation images: `valid` is a copy of `train`, and its images are
  // predicted by heads that have not seen them.
  bool judged_out_of_fold = false;
  // The network to train and save: its specification, and its weights if they come from a directory
  // of untrained weights. `pretrained` in the specification means: with ImageNet's 1000 outputs
  // followed by another layer.
  ModelDirectory untrained;
  // Initial weights from elsewhere: from --weights, which only rank 0 reads, or from a trained
  // model.
  std::optional<WeightSource> weights;
  std::string weights_text;  // which of them were used, for the log
  // From --transform-path: first on ranks that have read it, in the end on all.
  std::optional<TransformChain> transform;
  std::optional<ImageSize> whole_image;  // with a transformation: the stored size of all images
  TransformSpec pixels, valid_pixels;
  // The sides of growing training images, in order, each used for the same number of epochs; the
  // last one is that of `pixels`. Empty: all images are as in `pixels`.
  std::vector<int> sizes;
  int num_epochs = 1;                        // over which the images grow
  TransformSpec pixels_of(int epoch) const;  // from 1
  std::string size_reason;                   // for the log
  Normalization normalization;
  std::string normalization_name;    // "half", "imagenet" or "given"
  std::string normalization_reason;  // for the log
  int smallest_batch = 1;            // 2 if BatchNorm sees a 1x1 map
  // Warnings to log before training starts. Notes about a dataset are in that dataset.
  std::vector<std::string> notes;
};

// Reads training data, validation data and model. Faults are added to `problems` in this order, to
// be reported along with others. Empty paths, which come from an invalid command line, are skipped.
// `seed` and `scan` are for --data-path. `valid_stream` is open if the validation images came in a
// stream; it must stay so until all archives are open.
TrainingInputs read_training_inputs(const DataConfig& config, Problems& problems,
                                    std::uint64_t seed = 1, const ScanPlan& scan = {},
                                    const OpenFile& valid_stream = {});

// Whether the transformation of the images depends on their sizes.
bool needs_sizes(const DataConfig& config, const TrainingInputs& inputs);

// Fills in the remaining fields from valid inputs. Throws Error kInvalidDataset if the images are
// too small for the network.
void choose_transforms(const DataConfig& config, TrainingInputs& inputs);

// Adopts the normalization chosen by rank 0, which has read the weights.
void take_normalization(const Normalization& normalization, TrainingInputs& inputs);

// The preprocessing of validation images, for the trained model.
Preprocessing preprocessing_of(const TrainingInputs& inputs);

// Throws Error kLessThanOrEqualTo or kGreaterThanOrEqualTo. Skips inputs that could not be read.
void check_batch_size(const OptimizationConfig& config, const TrainingInputs& inputs,
                      int num_ranks);

// The choices made by choose_transforms(), for ranks that have not read the images.
struct SizeChoice {  // the sizes in a TransformSpec
  ImageSize output;
  int short_side = 0;
  bool keep_exact = true;
  bool operator==(const SizeChoice&) const = default;
};
struct TransformChoice {
  Exif exif = Exif::kIgnore;
  SizeChoice pixels, valid_pixels;
  ImageSize whole_image;  // height 0: none
  int smallest_batch = 1;
  Normalization normalization;
  bool operator==(const TransformChoice&) const = default;
};
TransformChoice transform_choice(const TrainingInputs& inputs);
// `inputs` must have the transformation, if there is one.
void take_transform_choice(const DataConfig& config, const TransformChoice& choice,
                           TrainingInputs& inputs);

}  // namespace kiln
