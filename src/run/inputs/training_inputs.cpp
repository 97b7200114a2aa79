#include "run/inputs/training_inputs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "data/dataset/image_index.h"
#include "data/stream/stream_source.h"
#include "model/catalogue.h"
#include "run/inputs/split_inputs.h"
#include "run/inputs/stream_inputs.h"
#include "run/inputs/transformation.h"

namespace kiln {
namespace {

// Pixels by which --image-size grows; --eval-crop larger rounds up to a multiple of this.
constexpr int kSizeStep = 32;

std::vector<int> growing_sizes(const DataConfig& config) {
  std::vector<int> sizes;
  if (config.image_size.first == 0) return sizes;
  for (int side = config.image_size.first; side < config.image_size.last; side += kSizeStep)
    sizes.push_back(side);
  sizes.push_back(config.image_size.last);
  return sizes;
}

// Returns 7/6 of `side`, rounded up to a multiple of kSizeStep. Random crops in training enlarge
// objects by about 7/6: Touvron et al., "Fixing the train-test resolution discrepancy",
// arXiv:1906.06423.
int larger_crop(int side) {
  return (side * 7 + 6 * kSizeStep - 1) / (6 * kSizeStep) * kSizeStep;
}

void choose_size(const DataConfig& config, TrainingInputs& inputs) {
  int side = config.image_size.last;
  inputs.size_reason = "--image-size";
  if (config.image_size.first > 0)
    inputs.size_reason += ", growing from " + std::to_string(config.image_size.first);
  if (side == 0) {
    const AutomaticSize chosen = automatic_size({&inputs.train, &inputs.valid});
    inputs.size_reason = chosen.reason;
    if (chosen.is_stored) {
      inputs.pixels.output = chosen.size;
      return;
    }
    side = chosen.size.height;
  }
  inputs.pixels.output = {side, side};
  inputs.pixels.short_side = usual_short_side(side);
}

void choose_by_transformation(const DataConfig& config, TrainingInputs& inputs) {
  ChainPlans plans = plans_of(*inputs.transform, inputs.whole_image, config.transform_path);
  inputs.pixels = std::move(plans.train);
  inputs.valid_pixels = std::move(plans.valid);
  inputs.size_reason = "after the operations of --transform-path";
}

// Requires that inputs.pixels is set.
void choose_valid_pixels(const DataConfig& config, TrainingInputs& inputs) {
  TransformSpec& valid = inputs.valid_pixels;
  valid = inputs.pixels;
  int crop = config.eval_crop.side;
  if (config.eval_crop.is_larger && inputs.pixels.short_side > 0)
    crop = larger_crop(inputs.pixels.output.height);
  if (crop > 0) valid.output = {crop, crop};
  const int side = std::max(valid.output.height, valid.output.width);
  check_eval_size(config.eval_resize, side);
  if (config.eval_resize > 0) {
    valid.short_side = config.eval_resize;
    valid.keep_exact = false;
  } else if (crop > 0) {
    valid.short_side = usual_short_side(side);
  }
}

void choose_normalization(const DataConfig& config, TrainingInputs& inputs) {
  inputs.normalization_reason = "";
  if (config.normalization != NormalizationChoice::kAuto) {
    const bool imagenet = config.normalization == NormalizationChoice::kImagenet;
    inputs.normalization = imagenet ? kImagenetNormalization : Normalization{};
  } else if (inputs.weights && inputs.weights->normalization) {
    inputs.normalization = *inputs.weights->normalization;
    inputs.normalization_reason = "as the weights were trained";
  } else if (inputs.weights) {
    inputs.normalization = kImagenetNormalization;
    inputs.normalization_reason = "unknown for these weights";
  } else {
    inputs.normalization =
        inputs.untrained.spec.pretrained ? kImagenetNormalization : Normalization{};
  }
}

// Sets what follows from the options and the normalization. Erased pixels get the mean, which
// normalization turns into 0.
void settle_pixels(const DataConfig& config, TrainingInputs& inputs) {
  inputs.sizes = growing_sizes(config);
  inputs.pixels.augment = config.augment;
  take_normalization(inputs.normalization, inputs);
}

// Returns the number of pixels of the last feature map. Throws Error kInvalidDataset if it is 0.
int final_map_pixels(const TrainingInputs& inputs, ImageSize size, const std::string& dataset,
                     const std::string& option) {
  const std::string& model = inputs.untrained.spec.model_name;
  const NetworkFamily& family = known_network(model).family();
  const int pixels = family.final_map_side(size.height) * family.final_map_side(size.width);
  if (pixels == 0)
    throw Error(ErrorCode::kInvalidDataset,
                dataset + " dataset is not valid: images of " + std::to_string(size.width) + "x" +
                    std::to_string(size.height) + " pixels are too small for " + model + ": use " +
                    option + " " + std::to_string(family.stride()) + " or more.");
  return pixels;
}

void check_image_sizes(const DataConfig& config, TrainingInputs& inputs) {
  const std::string by_chain = "operations in --transform-path that give";
  const int first = config.image_size.first;
  const ImageSize smallest = first > 0 ? ImageSize{first, first} : inputs.pixels.output;
  if (final_map_pixels(inputs, smallest, "Training",
                       inputs.transform ? by_chain : "--image-size") == 1)
    inputs.smallest_batch = 2;
  final_map_pixels(inputs, inputs.valid_pixels.output, "Validation",
                   inputs.transform ? by_chain : "--eval-crop");
}

// Reads --untrained-model-path. A trained model becomes a source of weights.
void read_untrained(const DataConfig& config, TrainingInputs& inputs) {
  inputs.untrained = read_model(config.untrained_model_path);
  if (!inputs.untrained.spec.num_classes) return;
  ModelDirectory source = std::move(inputs.untrained);
  inputs.untrained = {};
  inputs.untrained.spec = source.spec;
  inputs.weights = weights_of(std::move(source), config.untrained_model_path);
}

// Sets the network that --model-name describes, and reads its --weights.
void read_network(const NetworkConfig& config, TrainingInputs& inputs) {
  inputs.untrained.spec = {.model_name = config.model_name,
                           .zero_init_residual = config.zero_init_residual,
                           .num_classes = {},
                           .normalization = {}};
  if (!config.weights.empty())
    inputs.weights = read_weight_source(config.weights, config.model_name);
}

void read_validation(const DataConfig& config, IndexUse use, TrainingInputs& inputs) {
  use.contents = inputs.valid.contents;
  inputs.valid = read_indexed_dataset(
      use.contents.empty() ? config.valid_path : stream_path(config.valid_path, 0),
      "Validation dataset", use);
}

void read_both_datasets(const DataConfig& config, TrainingInputs& inputs, Problems& problems) {
  const bool with_sizes = needs_sizes(config, inputs);
  const IndexUse use{.with_sizes = with_sizes, .records = config.records};
  const bool is_stream = is_stream_path(config.train_path);
  if (!config.train_path.empty() && !is_stream)
    problems.collect(
        [&] { inputs.train = read_indexed_dataset(config.train_path, "Training dataset", use); });
  if (!config.valid_path.empty())
    problems.collect([&] {
      read_validation(config, use, inputs);
      if (!inputs.train.samples.empty() && !config.has_train_shard)
        settle_labels(inputs.train, inputs.valid, config.records.first_label);
    });
  if (is_stream) inputs.train = stream_dataset(config, inputs.valid);
  inputs.valid.exif = inputs.train.exif;  // the training images decide for both
  if (with_sizes && inputs.valid.sizes_with != inputs.valid.exif)
    scan_sizes(inputs.valid, SizesWanted::kCommon);
}

}  // namespace

TrainingInputs read_training_inputs(const DataConfig& config, Problems& problems,
                                    std::uint64_t seed, const ScanPlan& scan,
                                    const OpenFile& valid_stream) {
  TrainingInputs inputs;
  inputs.valid.contents = valid_stream.path();
  const auto collect = [&problems](const std::string& path, auto&& read) {
    if (!path.empty()) problems.collect(read);
  };
  collect(config.transform_path,
          [&] { inputs.transform = read_transformation(config.transform_path); });
  inputs.is_split = !config.split.data_path.empty();
  if (inputs.is_split)
    collect(config.train_path, [&] {
      refuse_split_of_stream(config.split.data_path);
      read_split_inputs(config, seed, scan, inputs);
    });
  else
    read_both_datasets(config, inputs, problems);
  collect(config.untrained_model_path, [&] { read_untrained(config, inputs); });
  collect(config.network.model_name, [&] { read_network(config.network, inputs); });
  return inputs;
}

TransformSpec TrainingInputs::pixels_of(int epoch) const {
  TransformSpec spec = pixels;
  if (sizes.empty()) return spec;
  const auto place =
      static_cast<std::size_t>(epoch - 1) * sizes.size() / static_cast<std::size_t>(num_epochs);
  const int side = sizes[std::min(place, sizes.size() - 1)];
  spec.output = {side, side};
  spec.short_side = usual_short_side(side);
  return spec;
}

bool needs_sizes(const DataConfig& config, const TrainingInputs& inputs) {
  return inputs.transform ? !gives_one_size(*inputs.transform) : config.image_size.last == 0;
}

void choose_transforms(const DataConfig& config, TrainingInputs& inputs) {
  if (inputs.transform) {
    // The images of a stream are not known yet and may have other sizes.
    if (needs_sizes(config, inputs) && !inputs.train.is_stream())
      inputs.whole_image = common_size({&inputs.train, &inputs.valid});
    choose_by_transformation(config, inputs);
  } else {
    choose_size(config, inputs);
    choose_valid_pixels(config, inputs);
  }
  inputs.pixels.exif = inputs.valid_pixels.exif = inputs.train.exif;
  check_image_sizes(config, inputs);
  choose_normalization(config, inputs);
  settle_pixels(config, inputs);
}

void take_normalization(const Normalization& normalization, TrainingInputs& inputs) {
  inputs.normalization = normalization;
  inputs.normalization_name = normalization == kImagenetNormalization ? "imagenet"
                              : normalization == Normalization{}      ? "half"
                                                                      : "given";
  for (std::size_t c = 0; c < 3; ++c)
    inputs.pixels.erased[c] = static_cast<std::uint8_t>(
        std::lround(std::clamp(inputs.normalization.mean[c], 0.0, 1.0) * 255));
}

Preprocessing preprocessing_of(const TrainingInputs& inputs) {
  const TransformSpec& plan = inputs.valid_pixels;
  return {.exif = plan.exif,
          .height = plan.output.height,
          .width = plan.output.width,
          .resize_short_side = plan.short_side,
          .keep_exact_size = plan.keep_exact,
          .normalization = inputs.normalization,
          .transforms = plan.chain ? plan.chain->whole.to_json() : ""};
}

TransformChoice transform_choice(const TrainingInputs& inputs) {
  const auto sizes = [](const TransformSpec& plan) {
    return SizeChoice{plan.output, plan.short_side, plan.keep_exact};
  };
  return {inputs.pixels.exif,         sizes(inputs.pixels),
          sizes(inputs.valid_pixels), inputs.whole_image.value_or(ImageSize{}),
          inputs.smallest_batch,      inputs.normalization};
}

void take_transform_choice(const DataConfig& config, const TransformChoice& choice,
                           TrainingInputs& inputs) {
  const auto plan = [](const SizeChoice& sizes) {
    return TransformSpec{
        .output = sizes.output, .short_side = sizes.short_side, .keep_exact = sizes.keep_exact};
  };
  inputs.pixels = plan(choice.pixels);
  inputs.valid_pixels = plan(choice.valid_pixels);
  if (choice.whole_image.height > 0) inputs.whole_image = choice.whole_image;
  if (inputs.transform) choose_by_transformation(config, inputs);
  inputs.pixels.exif = inputs.valid_pixels.exif = choice.exif;
  inputs.smallest_batch = choice.smallest_batch;
  inputs.normalization = choice.normalization;
  inputs.size_reason = "as rank 0 chose";
  settle_pixels(config, inputs);
}

void check_batch_size(const OptimizationConfig& config, const TrainingInputs& inputs,
                      int num_ranks) {
  if (config.batch_size < 1) return;
  const auto images = static_cast<std::int64_t>(inputs.train.samples.size());
  const std::int64_t others = std::int64_t{num_ranks} * config.accumulate;
  if (images > 0 && config.batch_size * others > images) {
    std::string found = std::to_string(config.batch_size);
    if (num_ranks > 1) found += " on each of " + std::to_string(num_ranks) + " ranks";
    if (config.accumulate > 1)
      found += ", " + std::to_string(config.accumulate) + " times per step";
    const std::string remedy =
        images >= others ? "use --batch-size " + std::to_string(images / others) + " or less."
                         : "use fewer ranks, or more images.";
    throw Error(ErrorCode::kLessThanOrEqualTo, "Parameter \"Batch size\" is " + found +
                                                   ", but the training dataset has only " +
                                                   std::to_string(images) + " images: " + remedy);
  }
  if (config.batch_size < inputs.smallest_batch)
    throw Error(
        ErrorCode::kGreaterThanOrEqualTo,
        "Parameter \"Batch size\" is 1, but with images this small the last feature map has one "
        "pixel, which cannot be normalized over a single image: use --batch-size 2 or more, or a "
        "larger "
        "--image-size.");
}

}  // namespace kiln
