// What a training run reads before it starts, and how its images become pixels. Faults are
// collected and reported together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "data/loader/batch_loader.h"
#include "data/loader/sampler.h"
#include "data/split/split_dataset.h"
#include "data/transform/image_pipeline.h"
#include "data/transform/operations.h"
#include "model/weights/weight_source.h"
#include "run/inputs/image_sizes.h"
#include "store/model_directory.h"

namespace kiln {

// Throws Problems with Error kInvalidTransformationDirectory if the directory cannot be read or is
// not a transformation, and for faults in its operations.
TransformChain read_transformation(const std::filesystem::path& folder);

// The split of --data-path, on ranks that have read the dataset.
struct InputSplit {
  std::string csv;      // the contents of split.csv
  std::string summary;  // for the log
  // The result of groups_of(), by image of `train`; empty with --split.
  std::vector<std::uint32_t> train_groups;
};

// The images and the network. During the run only the images' hashes change, which loaders note.
struct Sources {
  Dataset train, valid;   // validation labels are training class ids
  bool is_split = false;  // both are parts of one dataset
  std::optional<InputSplit> split;
  // With --folds and no validation images: `valid` is a copy of `train`, and its images are
  // predicted by heads that have not seen them.
  bool judged_out_of_fold = false;
  // The network to train and save: its specification, and until the model is built its weights, if
  // they come from a directory of untrained weights. `pretrained` in the specification means: with
  // ImageNet's 1000 outputs followed by another layer.
  ModelDirectory untrained;
  // Initial weights from elsewhere, until the model is built: from --weights, which only rank 0
  // reads, or from a trained model.
  std::optional<WeightSource> weights;
  std::optional<SeenImages> seen;  // what those were trained on, if known; on rank 0
  std::string weights_text;        // which of them were used, for the log
  // From --transform-path: first on ranks that have read it, in the end on all.
  std::optional<TransformChain> transform;
  // Warnings to log before training starts. Notes about a dataset are in that dataset.
  std::vector<std::string> notes;

  const ModelSpec& spec() const { return untrained.spec; }
  std::size_t num_classes() const { return train.classes.size(); }
};

// How images are preprocessed.
struct PixelPlan {
  TransformSpec train, valid;
  // What the images' sizes led to where options leave it to them; on ranks that have read them.
  std::optional<AutomaticSize> by_images;
  std::optional<ImageSize> whole_image;  // with a transformation: the stored size of all images
  std::optional<double> cut_away;        // share_cut_away() of training images that were read
  int given_side = 0;                    // the shorter of --image-size; 0: not given
  std::string size_reason;               // for the log
  Normalization normalization;
  std::string normalization_name;    // "half", "imagenet" or "given"
  std::string normalization_reason;  // for the log
  int smallest_batch = 1;            // 2 if BatchNorm sees a 1x1 map
  bool operator==(const PixelPlan&) const = default;
};

// Which images are this rank's.
struct Division {
  Shard train, valid;  // among all ranks, or those that share a part
  // This rank keeps one of every `keep_one_of` images of its stream: all, or with --shard-by record
  // or host its share of a stream that all ranks, or those of `train_part`, read.
  int keep_one_of = 1, keep_which = 0;
  bool is_one_stream = false;  // the ranks divide one stream so
  // Equal on the ranks that were given the same training images: empty unless --shard-by is none,
  // train or host.
  std::string train_part;
  // Whether each rank or host has its own images: `train` and `valid` list only those.
  bool has_own_train = false, has_own_valid = false;
  std::int64_t steps_per_epoch = 0;  // the same on all ranks
  std::int64_t images_per_epoch() const { return steps_per_epoch * train.images_per_step(); }
};

// Reads training data, validation data and model. Faults are added to `problems` in this order, to
// be reported along with others. Empty paths, which come from an invalid command line, are skipped.
// `seed` and `scan` are for --data-path. `valid_stream` is open if the validation images came in a
// stream; it must stay so until all archives are open.
Sources read_sources(const DataConfig& config, Problems& problems, std::uint64_t seed = 1,
                     const ScanPlan& scan = {}, const OpenFile& valid_stream = {});

// `kept`: by_images of the run that is resumed, which stays in effect; a note in the sources says
// so if the images now lead to another size. Throws Error kInvalidDataset if the images are too
// small for the network.
PixelPlan choose_pixels(const DataConfig& config, Sources& sources,
                        const std::optional<AutomaticSize>& kept = {});

// Adopts the fit, by which validation images are prepared.
void set_fit(const DataConfig& config, const Sources& sources, Fit fit, PixelPlan& pixels);

// Adopts the normalization chosen by rank 0, which has read the weights.
void set_normalization(const Normalization& normalization, PixelPlan& pixels);

// The preprocessing of validation images, for the trained model.
Preprocessing preprocessing_of(const PixelPlan& pixels);

// Throws Error kLessThanOrEqualTo or kGreaterThanOrEqualTo. Skips images that could not be read.
void check_batch_size(const OptimizationConfig& config, std::int64_t num_images, int smallest_batch,
                      int num_ranks);

// The choices made by choose_pixels(), which other ranks get as bytes (base/bytes.h).
void visit_fields(Is<TransformSpec> auto& plan, auto&& field) {
  fields(field, "exif", plan.exif, "output", plan.output, "fit", plan.fit, "short_side",
         plan.short_side, "keep_exact", plan.keep_exact);
}
void visit_fields(Is<PixelPlan> auto& pixels, auto&& field) {
  fields(field, "train", pixels.train, "valid", pixels.valid, "whole_image", pixels.whole_image,
         "smallest_batch", pixels.smallest_batch, "normalization", pixels.normalization);
}
// Adds to these choices of rank 0 what they leave out, on a rank that has not read the images.
// `sources` must have the transformation, if there is one.
void complete_choices(const DataConfig& config, const Sources& sources, PixelPlan& pixels);

// How to scan the images of --data-path. After a few seconds the scan logs its progress to `log`,
// which must outlive the plan.
ScanPlan scan_plan(int num_threads, Log& log);

// Logs how --data-path was split, and writes split.csv into the log folder unless another program
// is writing its record there. For rank 0; does nothing if nothing was split. Throws Error
// kFailedToWriteOutputs if the user named the folder.
void write_split(const TrainConfig& config, const Sources& sources, Log& log);

}  // namespace kiln
