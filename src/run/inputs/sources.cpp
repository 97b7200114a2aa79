#include "run/inputs/sources.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/files.h"
#include "base/platform/launch_environment.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/listing.h"
#include "data/stream/record_stream.h"
#include "model/catalogue.h"
#include "record/earlier_run.h"
#include "record/run_summary.h"
#include "run/inputs/paced_news.h"
#include "run/inputs/stream_inputs.h"
#include "store/transformation_directory.h"

namespace kiln {
namespace {

// `form` is the training form of the operations if `trains`, else the inference form. Throws Error
// kInvalidDataset.
TransformSpec plan_of(const TransformChain& form, bool trains, std::optional<ImageSize> whole_image,
                      const std::string& path) {
  const auto refuse = [&](const std::string& fault) {
    throw Error(ErrorCode::kInvalidDataset, std::string(trains ? "Training" : "Validation") +
                                                " dataset is not valid: " + fault);
  };
  const std::string operations = "--transform-path '" + path + "' (" + form.summary() + ")";
  try {
    const std::optional<ImageSize> size = form.output_size(whole_image);
    if (!size)
      refuse("after " + operations + " its images would have different sizes. " +
             (trains ? "End the operations with one that fixes the size, such as CenterCrop or "
                       "RandomResizedCrop."
                     : "Operations whose names begin with Random run only in training: let the "
                       "others fix the size, such as Resize and CenterCrop."));
    return {.output = *size,
            .chain = trains ? training_chain(form, whole_image) : inference_chain(form)};
  } catch (const ImageFault& fault) {
    refuse("its images cannot be processed by " + operations + ": " + fault.what() + ".");
    throw;
  }
}

// Whether the transformation of the images depends on their sizes: without operations, that is for
// the options to say; with them, it does unless both forms turn images of any size into one.
bool needs_sizes(const DataConfig& config, const Sources& sources) try {
  if (!sources.transform) return config.image_size.height == 0;
  return !sources.transform->output_size() || !sources.transform->for_inference().output_size();
} catch (const ImageFault&) {  // reported by plan_of()
  return false;
}

// --eval-crop larger rounds up to a multiple of this. Whole patches, for a network that has some.
int size_step(const Sources& sources) {
  constexpr int kStep = 32;
  const int patch = known_network(sources.spec().model_name).patch;
  return patch > 0 ? std::max(1, kStep / patch) * patch : kStep;
}

// Images may have been replaced since the run began, but its weights know those of before.
void choose_by_images(const DataConfig& config, const std::optional<AutomaticSize>& kept,
                      Sources& sources, PixelPlan& pixels) {
  if (!needs_sizes(config, sources)) return;
  // What the images say now: the size to train at, or with a transformation the one that all have,
  // which is unknown for those of a stream.
  const std::vector<const Dataset*> sets = {&sources.train, &sources.valid};
  AutomaticSize now;
  if (!sources.transform)
    now = automatic_size(sets, known_network(sources.spec().model_name).side());
  else if (const auto common = sources.train.is_stream() ? std::nullopt : common_size(sets))
    now = {*common, true, ""};
  pixels.by_images = now;
  if (!kept || (kept->size == now.size && kept->is_stored == now.is_stored)) return;
  pixels.by_images = AutomaticSize{kept->size, kept->is_stored, "as before"};
  if (kept->size == now.size) return;
  sources.notes.push_back(
      std::string("this run keeps the image size of its checkpoint") +
      (sources.transform ? " before --transform-path, " : ", ") + text_of(kept->size) +
      ", though its images would now lead to " +
      (now.size.height > 0 ? text_of(now.size) : "several sizes") +
      ": to change it, start over with --resume never or another --checkpoint-path");
}

void choose_by_transformation(const DataConfig& config, const TransformChain& transform,
                              PixelPlan& pixels) {
  const auto plan = [&](const TransformChain& form, bool trains) {
    return plan_of(form, trains, pixels.whole_image, config.transform_path);
  };
  pixels.train = plan(transform, /*trains=*/true);
  pixels.valid = plan(transform.for_inference(), /*trains=*/false);
  pixels.size_reason = "after the operations of --transform-path";
}

// Requires that pixels.train is set.
void choose_valid_pixels(const DataConfig& config, int size_step, PixelPlan& pixels) {
  TransformSpec& valid = pixels.valid;
  valid = pixels.train;
  valid.augment = Augment::kNone;
  if (valid.fit != Fit::kCrop) return;  // --eval-crop of a recipe is for crops
  int crop = config.eval_crop.side;
  // 7/6 of the side, rounded up: random crops in training enlarge objects by about 7/6. Touvron et
  // al., "Fixing the train-test resolution discrepancy", arXiv:1906.06423.
  if (config.eval_crop.is_larger && pixels.train.short_side > 0)
    crop = (pixels.train.output.height * 7 + 6 * size_step - 1) / (6 * size_step) * size_step;
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

void choose_normalization(const DataConfig& config, const Sources& sources, PixelPlan& pixels) {
  if (config.normalization != NormalizationChoice::kAuto) {
    const bool imagenet = config.normalization == NormalizationChoice::kImagenet;
    pixels.normalization = imagenet ? kImagenetNormalization : Normalization{};
  } else if (sources.weights && sources.weights->normalization) {
    pixels.normalization = *sources.weights->normalization;
    pixels.normalization_reason = "as the weights were trained";
  } else if (sources.weights) {
    pixels.normalization = kImagenetNormalization;
    pixels.normalization_reason = "unknown for these weights";
  } else if (sources.spec().pretrained && sources.spec().normalization) {
    pixels.normalization = *sources.spec().normalization;
    pixels.normalization_reason = "as the weights were trained";
  } else {
    pixels.normalization = sources.spec().pretrained ? kImagenetNormalization : Normalization{};
  }
}

// Sets what follows from the options and the normalization. Erased pixels get the mean, which
// normalization turns into 0.
void complete_pixels(const DataConfig& config, PixelPlan& pixels) {
  pixels.given_side = std::min(config.image_size.height, config.image_size.width);
  pixels.train.augment = config.augment;
  set_normalization(pixels.normalization, pixels);
}

// Returns the number of pixels of the last feature map. Throws Error kInvalidDataset if it is 0.
int final_map_pixels(const std::string& model, ImageSize size, const std::string& dataset,
                     const std::string& option) {
  const KnownNetwork& network = known_network(model);
  const std::string fault = network.size_fault(size.height, size.width);
  if (!fault.empty())
    throw Error(
        ErrorCode::kInvalidDataset,
        dataset + " dataset is not valid: images of " + std::to_string(size.width) + "x" +
            std::to_string(size.height) + " pixels " + fault + ": use " + option + " " +
            (network.patch > 0 ? std::to_string(16 * network.patch) + " or another multiple."
                               : std::to_string(network.family().stride()) + " or more."));
  return network.final_map_side(size.height) * network.final_map_side(size.width);
}

void check_image_sizes(const Sources& sources, PixelPlan& pixels) {
  const std::string by_chain = "operations in --transform-path that give";
  const std::string& model = sources.spec().model_name;
  const bool is_one_pixel = final_map_pixels(model, pixels.train.output, "Training",
                                             sources.transform ? by_chain : "--image-size") == 1;
  if (is_one_pixel && known_network(model).family().has_batch_norm) pixels.smallest_batch = 2;
  final_map_pixels(model, pixels.valid.output, "Validation",
                   sources.transform ? by_chain : "--eval-crop");
}

// read_labeled() and, `with_sizes`, what scan_sizes() finds.
Dataset read_set(DatasetContext context, bool with_sizes) {
  Dataset set = read_labeled(context);
  if (with_sizes) scan_sizes(set, SizesWanted::kCommon);
  return set;
}

// The images of --data-path. Those of a folder without labels get them from --labels, which is then
// the list of the images, and no longer a file of corrections.
Dataset read_all(const RecordOptions& records, bool with_sizes, SplitConfig& options) {
  try {
    return read_set({.root = options.data_path, .name = "Dataset", .records = records}, with_sizes);
  } catch (const Error& fault) {
    if (fault.code() != ErrorCode::kNotLabeledDataset || options.labels.empty()) throw;
  }
  DatasetContext labels{.root = std::exchange(options.labels, ""), .name = "--labels"};
  labels.records = records;
  labels.records.list_roots.emplace_back("", options.data_path);
  Dataset set = read_set(labels, with_sizes);
  const std::size_t all = read_dataset(options.data_path, "Dataset").samples.size();
  if (all > set.samples.size())
    set.notes.push_back(grouped(static_cast<long long>(all - set.samples.size())) + " of " +
                        grouped(static_cast<long long>(all)) + " images in '" + options.data_path +
                        "' have no label in --labels and are skipped");
  return set;
}

// Fills in `train`, `valid` and `split`. Throws as read_labeled() and split_dataset() do.
void read_split_inputs(const DataConfig& config, std::uint64_t seed, const ScanPlan& scan,
                       Sources& sources) {
  SplitConfig options = config.split;
  Dataset all =
      read_all(of_sets(config.records, {"train", "valid"}), needs_sizes(config, sources), options);
  SplitDataset split = split_dataset(std::move(all),
                                     {.fraction = options.all_train ? 0 : options.valid_fraction,
                                      .group_by = options.group_by,
                                      .seed = seed,
                                      .split_file = options.file,
                                      .labels_file = options.labels},
                                     scan);
  std::vector<bool> trains(split.sides.size()), validates(split.sides.size());
  InputSplit& known = sources.split.emplace();
  for (std::size_t i = 0; i < split.sides.size(); ++i) {
    validates[i] = split.sides[i] == Side::kValid;
    trains[i] = !validates[i];
    if (!split.groups.empty() && trains[i]) known.train_groups.push_back(split.groups[i]);
  }
  known.csv = format_split(split.set, split.sides, split.groups);
  known.summary = std::move(split.summary);
  sources.train = part_of(split.set, trains);
  sources.valid = part_of(split.set, validates);
  sources.train.name = "Training dataset";
  sources.valid.name = "Validation dataset";
  sources.train.notes = std::move(split.set.notes);
}

void read_validation(const DataConfig& config, bool with_sizes, Sources& sources) {
  const std::filesystem::path contents = sources.valid.contents;
  const bool is_alone = is_stream_path(config.train_path) && !config.has_train_shard;
  sources.valid =
      read_set({.root = contents.empty() ? config.valid_path : stream_path(config.valid_path, 0),
                .name = "Validation dataset",
                .is_part = !is_alone,
                .records = of_sets(config.records, {"valid"}),
                .contents = contents},
               with_sizes);
}

void read_both_datasets(const DataConfig& config, Sources& sources, Problems& problems) {
  const bool with_sizes = needs_sizes(config, sources);
  const bool is_stream = is_stream_path(config.train_path);
  const bool is_alone = config.valid_path.empty() && !config.has_train_shard;
  if (!config.train_path.empty() && !is_stream)
    problems.collect([&] {
      sources.train = read_set({.root = config.train_path,
                                .name = "Training dataset",
                                .is_part = !is_alone,
                                .records = of_sets(config.records, {"train"})},
                               with_sizes);
    });
  if (!config.valid_path.empty())
    problems.collect([&] {
      read_validation(config, with_sizes, sources);
      if (!sources.train.samples.empty() && !config.has_train_shard)
        decide_labels(sources.train, sources.valid, config.records.first_label);
    });
  if (is_stream) sources.train = stream_dataset(config, sources.valid);
  sources.valid.exif = sources.train.exif;  // the training images decide for both
  if (with_sizes && sources.valid.sizes_with != sources.valid.exif)
    scan_sizes(sources.valid, SizesWanted::kCommon);
}

}  // namespace

TransformChain read_transformation(const std::filesystem::path& folder) {
  const std::string text = read_transformation_directory(folder);
  Problems problems;
  TransformChain chain = TransformChain::parse(text, (folder / kTransformsFile).string(), problems);
  problems.throw_if_any();
  return chain;
}

Sources read_sources(const DataConfig& config, Problems& problems, std::uint64_t seed,
                     const ScanPlan& scan, const OpenFile& valid_stream) {
  Sources sources;
  sources.valid.contents = valid_stream.path();
  const auto collect = [&problems](const std::string& path, auto&& read) {
    if (!path.empty()) problems.collect(read);
  };
  collect(config.transform_path,
          [&] { sources.transform = read_transformation(config.transform_path); });
  sources.is_split = !config.split.data_path.empty();
  if (sources.is_split)
    collect(config.train_path, [&] {
      refuse_split_of_stream(config.split.data_path);
      read_split_inputs(config, seed, scan, sources);
    });
  else
    read_both_datasets(config, sources, problems);
  collect(config.untrained_model_path, [&] {
    ModelDirectory model = read_model(config.untrained_model_path);
    const bool is_trained = model.spec.num_classes.has_value();  // then a source of weights
    sources.untrained.spec = model.spec;
    if (is_trained)
      sources.weights = weights_of(std::move(model), config.untrained_model_path);
    else
      sources.untrained = std::move(model);
  });
  collect(config.network.model_name, [&] {
    const NetworkConfig& network = config.network;
    sources.untrained.spec = {.model_name = network.model_name};
    if (!network.weights.empty())
      sources.weights = read_weight_source(network.weights, network.model_name);
  });
  sources.seen = std::move(sources.weights ? sources.weights->seen : sources.untrained.seen_images);
  return sources;
}

PixelPlan choose_pixels(const DataConfig& config, Sources& sources,
                        const std::optional<AutomaticSize>& kept) {
  PixelPlan pixels;
  choose_by_images(config, kept, sources, pixels);
  if (sources.transform) {
    if (pixels.by_images && pixels.by_images->is_stored)
      pixels.whole_image = pixels.by_images->size;
    choose_by_transformation(config, *sources.transform, pixels);
  } else {
    const bool is_stored = pixels.by_images && pixels.by_images->is_stored;
    const ImageSize size = pixels.by_images ? pixels.by_images->size : config.image_size;
    const bool is_square = size.height == size.width;
    pixels.size_reason = pixels.by_images ? pixels.by_images->reason : "--image-size";
    if (!is_square && !is_stored)
      pixels.size_reason += formatted(", %d high and %d wide", size.height, size.width);
    pixels.train.output = size;
    // Otherwise crops come from the least size that covers them.
    if (is_square && !is_stored) pixels.train.short_side = usual_short_side(size.height);
    pixels.cut_away = share_cut_away(sources.train, pixels.train.output);
    constexpr Fit kForElongated = Fit::kPad;  // measured in docs/recipes.md
    const bool keeps_all =
        pixels.cut_away.value_or(0) > kMuchCutAway && !sources.train.is_image_directory;
    set_fit(config, sources, config.fit.value_or(keeps_all ? kForElongated : Fit::kCrop), pixels);
  }
  pixels.train.exif = pixels.valid.exif = sources.train.exif;
  check_image_sizes(sources, pixels);
  choose_normalization(config, sources, pixels);
  complete_pixels(config, pixels);
  return pixels;
}

void set_fit(const DataConfig& config, const Sources& sources, Fit fit, PixelPlan& pixels) {
  pixels.train.fit = fit;
  choose_valid_pixels(config, size_step(sources), pixels);
}

void set_normalization(const Normalization& normalization, PixelPlan& pixels) {
  pixels.normalization = normalization;
  pixels.normalization_name = normalization == kImagenetNormalization ? "imagenet"
                              : normalization == Normalization{}      ? "half"
                                                                      : "given";
  for (std::size_t c = 0; c < 3; ++c)
    pixels.train.fill[c] = pixels.valid.fill[c] =
        static_cast<std::uint8_t>(std::lround(std::clamp(normalization.mean[c], 0.0, 1.0) * 255));
}

Preprocessing preprocessing_of(const PixelPlan& pixels) {
  const TransformSpec& plan = pixels.valid;
  return {.exif = plan.exif,
          .height = plan.output.height,
          .width = plan.output.width,
          .resize_short_side = plan.fit == Fit::kCrop ? plan.short_side : 0,
          .keep_exact_size = plan.keep_exact,
          .normalization = pixels.normalization,
          .transforms = plan.chain ? plan.chain->whole.to_json() : "",
          .fit = plan.fit,
          .fill = plan.fit == Fit::kPad ? plan.fill : std::array<std::uint8_t, 3>{}};
}

void complete_choices(const DataConfig& config, const Sources& sources, PixelPlan& pixels) {
  const Exif exif = pixels.train.exif;
  if (sources.transform) choose_by_transformation(config, *sources.transform, pixels);
  pixels.train.exif = pixels.valid.exif = exif;
  pixels.size_reason = "as rank 0 chose";
  complete_pixels(config, pixels);
}

void check_batch_size(const OptimizationConfig& config, std::int64_t num_images, int smallest_batch,
                      int num_ranks) {
  if (config.batch_size < 1) return;
  const std::int64_t others = std::int64_t{num_ranks} * config.accumulate;
  const bool may_fit_features = config.freeze == Freeze::kBackbone;  // which makes no steps
  if (num_images > 0 && config.batch_size * others > num_images && !may_fit_features) {
    std::string found = std::to_string(config.batch_size);
    if (num_ranks > 1) found += " on each of " + std::to_string(num_ranks) + " ranks";
    if (config.accumulate > 1)
      found += ", " + std::to_string(config.accumulate) + " times per step";
    const std::string remedy =
        num_images >= others
            ? "use --batch-size " + std::to_string(num_images / others) + " or less."
            : "use fewer ranks, or more images.";
    throw Error(ErrorCode::kLessThanOrEqualTo,
                "Parameter \"Batch size\" is " + found + ", but the training dataset has only " +
                    std::to_string(num_images) + " images: " + remedy);
  }
  if (config.batch_size < smallest_batch)
    throw Error(
        ErrorCode::kGreaterThanOrEqualTo,
        "Parameter \"Batch size\" is 1, but with images this small the last feature map has one "
        "pixel, which cannot be normalized over a single image: use --batch-size 2 or more.");
}

ScanPlan scan_plan(int num_threads, Log& log) {
  return {.num_threads = num_threads,
          .progress = [news = std::make_shared<PacedNews>(log)](std::size_t done, std::size_t all) {
            news->show([&] {
              return "looking for duplicates: " + grouped(done) + " of " + grouped(all) + " images";
            });
          }};
}

void write_split(const TrainConfig& config, const Sources& sources, Log& log) {
  const std::filesystem::path folder = config.output.log_path;
  if (!collects_outputs()) set_aside(folder, "split");
  if (!sources.split) return;
  log.info("split:            " + sources.split->summary);
  try {
    make_folders(folder);
    write_file_durably(folder / kSplitFileName, sources.split->csv);
  } catch (const Error& fault) {
    if (config.settings.is_given(options::kLogPath)) throw;
    log.warning(std::string("the split was not written: ") + fault.what());
  }
}

}  // namespace kiln
