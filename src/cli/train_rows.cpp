// The options of `kiln train`, in the order of its tables. What several of them mean together is in
// train_checks.cpp.
#include "base/text.h"
#include "cli/rows.h"
#include "train/exchange/catalogue.h"
#include "train/optimizer/catalogue.h"
#include "train/schedule/catalogue.h"

namespace kiln {
namespace {

using enum Canvas;
using enum Effect;

ExchangePlan exchange_value(const Option& option, const std::string& text,
                            const std::string& where) {
  const std::size_t colon = text.find(':');
  const KnownExchange* kind =
      find_row(kKnownExchanges, choice_value(option, text.substr(0, colon), where));
  if (colon == std::string::npos) return {kind, kind->num_servers};
  if (kind->num_servers == 0)
    refuse_text(where + " is '" + excerpt(text) + "', but " + std::string(kind->name) +
                " has no number: leave it out.");
  return {kind, static_cast<int>(integer_value(option, text.substr(colon + 1), where))};
}

Reader<ExchangePlan> exchange() {
  Option option = named(kKnownExchanges).option;
  option.kind = ValueKind::kCountedChoice;
  option.value_name += "[:N]";
  option.minimum = 1;
  option.maximum = 1000;
  return {std::move(option), exchange_value, [](const Option&, const ExchangePlan& plan) {
            const std::string count = ":" + std::to_string(plan.num_servers);
            return std::string(plan.kind->name) +
                   (plan.num_servers == plan.kind->num_servers ? "" : count);
          }};
}

// The eleven options of the designer's component, in its order.
Rows<TrainConfig> component_rows() {
  return {
      within(&TrainConfig::data,
             {opt(&DataConfig::untrained_model_path, "untrained-model-path", model_path("DIR"),
                  {kPaths, kFree, kModelIn},
                  "UntrainedModelDirectory to train, as written by `kiln init-model`, or a trained "
                  "model to continue from: its folder or model.tar.gz.")
                  .with(&Option::instead, "model-name"),
              opt(&DataConfig::train_path, "train-data-path", input_path("DIR"),
                  {kPaths, kFree, kDataIn, kFirst, kRequired},
                  "Training images: an ImageDirectory, class folders, a COCO folder, an archive, "
                  "record files (TFRecord, RecordIO), a folder of shards, or a list of images with "
                  "labels (.csv, .jsonl, .parquet and others; docs/data.md). Or a stream (tar, "
                  "TFRecord, RecordIO): a named pipe, - for standard input, or a path with "
                  "{epoch}, which is replaced by the epoch number, from 0 at each start. {rank} in "
                  "a path is replaced by the rank's number on its host: each has its own images.")
                  .with(&Option::instead, "data-path"),
              opt(&DataConfig::valid_path, "valid-data-path", input_path("DIR"),
                  {kPaths, kFree, kDataIn, kFirst, kPositional, kRequired},
                  "Validation images, in the same formats; a stream is read once and kept.")
                  .with(&Option::instead, "data-path")}),
      within(&TrainConfig::output, {opt(&OutputConfig::trained_model_path, "trained-model-path",
                                        path("DIR"), {kPaths, kFree, kModelOut, kForOneRun, kFirst},
                                        "Output folder for the ModelDirectory.")
                                        .otherwise("model")}),
      within(
          &TrainConfig::optimization,
          {opt(&OptimizationConfig::epochs, "epochs", from(1, kMillion, "epochs"),
               {kTraining, kFree, kParameter, kFirst}, "Passes over the training dataset."),
           opt(&OptimizationConfig::batch_size, "batch-size", auto_or(1, kMillion, "images"),
               {kTraining, kBits, kParameter, kFirst},
               "Images per batch in each process. auto: 16; half of fewer than 32; on a GPU up to "
               "256, if half of its memory and 100 steps an epoch allow. A path alone gets auto."),
           opt(&OptimizationConfig::num_warmup_steps, "num-warmup-steps",
               from(0, kMillion, "epochs"), {kTraining, kResult, kParameter, kOfRecipe},
               "Epochs (not steps) of learning-rate warm-up; may be fractional, such as 2.5."),
           opt(&OptimizationConfig::learning_rate, "learning-rate", above_zero(1000),
               {kTraining, kResult, kParameter, kOfRecipe, kFirst},
               "Initial learning rate, or peak learning rate after warm-up. Without it and with "
               "--model-name, one that suits the optimizer and the batch."),
           seed_row<OptimizationConfig>(
               {kTraining, kResult, kParameter},
               "Seed for weight initialization, image order and augmentation."),
           opt(&OptimizationConfig::patience, "patience", from(1, kNoEarlyStop, "epochs"),
               {kTraining, kResult, kParameter, kOfRecipe},
               "Stop early after this many consecutive epochs whose validation loss is not "
               "below the previous epoch's.")}),
      within(&TrainConfig::output,
             {opt(&OutputConfig::print_freq, "print-freq", from(1, 1000 * kMillion, "steps"),
                  {kReporting, kFree, kParameter}, "Steps between log lines.")})};
}

Rows<DataConfig> image_rows() {
  using Config = DataConfig;
  return {
      opt(&Config::image_size, "image-size", image_size(), {kImages, kResult, kParameter, kFirst},
          "Resize images to this height and width; 320x240: a height of 320, a width of 240. auto: "
          "the size that all images share, if they are an ImageDirectory or have no side above "
          "256; else 224 (240, 288 and 300 for efficientnet_b1 to b3)."),
      opt(&Config::fit, "fit",
          {{"crop", Fit::kCrop}, {"pad", Fit::kPad}, {"stretch", Fit::kStretch}, {"auto", {}}},
          {kImages, kResult},
          "How images of another shape become the input, also those of the trained model. crop: "
          "the center. pad: all of the image, with plain bars. stretch: all of it, squeezed. auto: "
          "crop where that cuts away at most a third of a typical image, else pad; crop for an "
          "ImageDirectory, a stream, --eval-resize, --eval-crop, and with --recipe designer but "
          "without --weights."),
      opt(&Config::eval_resize, "eval-resize", auto_or(16, 4096, "pixels"), {kImages, kResult},
          "Resize the short side of validation images to this length. auto: 256/224 of "
          "--eval-crop, or no resizing if images already have the crop size."),
      opt(&Config::eval_crop, "eval-crop", crop_size(), {kImages, kResult, kOfRecipe},
          "Center crop size for validation images. auto: the training size. larger: if images are "
          "resized, 7/6 of it, rounded up to a multiple of 32, since random crops make objects "
          "appear larger; else the training size."),
      within(&Config::records,
             {exif_row({kImages, kResult},
                       "The trained model keeps the choice for all later images.")}),
      opt(&Config::augment, "augment", augmentation(), {kImages, kResult, kParameter, kOfRecipe},
          "Data augmentation for training images: a comma-separated list in any order, applied in "
          "the order given here. crop: random resized crop. flip, vflip: horizontal, vertical flip "
          "of half of the images. rotate90: by 0, 90, 180 or 270 degrees (by 0 or 180 where images "
          "are not square). color: brightness, contrast and saturation times 0.6 to 1.4. trivial: "
          "TrivialAugmentWide. erase: random erasing of a quarter of the images. standard: "
          "crop,flip. strong: crop,flip,trivial,erase."),
      opt(&Config::normalization, "normalization",
          {{"auto", NormalizationChoice::kAuto},
           {"half", NormalizationChoice::kHalf},
           {"imagenet", NormalizationChoice::kImagenet}},
          {kImages, kResult, kParameter},
          "Mean and standard deviation for normalization. half: 0.5 and 0.5. imagenet: those of "
          "ImageNet. auto: those that pretrained weights were trained with, or imagenet if "
          "unknown; half without pretrained weights."),
      opt(&Config::on_bad_image, "on-bad-image",
          {{"skip", OnBadImage::kSkip}, {"fail", OnBadImage::kFail}}, {kImages, kFree, kParameter},
          "Skip images that cannot be decoded, or fail at the first one."),
      opt(&Config::max_bad_images, "max-bad-images", allowance(), {kImages, kFree, kParameter},
          "Fail if more images of a dataset than this (or than this percentage, but at least 1) "
          "cannot be decoded. auto: 3 images or 1 %, whichever is more, but less than half."),
      opt(&Config::loader_threads, "loader-threads", auto_or(1, 256, "threads"),
          {kMachine, kFree, kMayDiffer},
          "Threads that load and decode images. auto: half of the processors at first, then as "
          "many as an epoch needed; with a GPU all but two.")};
}

Rows<TrainConfig> machine_rows() {
  return {
      within(&TrainConfig::ranks,
             {opt(&RanksConfig::threads, "threads", auto_or(1, 1024, "threads"),
                  {kMachine, kBits, kMayDiffer},
                  "Compute threads. auto: one per processor, shared by the ranks of a host."),
              opt(&RanksConfig::bind, "bind", {{"auto", true}, {"off", false}}, {kMachine, kFree},
                  "auto: bind the ranks of a host to cores of their own, and move compute threads "
                  "together while other programs use the processors. off: leave processors to the "
                  "system or the launcher.")}),
      within(&TrainConfig::data,
             {opt(&DataConfig::cache, "cache",
                  {{"auto", CachePolicy::kAuto},
                   {"none", CachePolicy::kNone},
                   {"bytes", CachePolicy::kBytes},
                   {"decoded", CachePolicy::kDecoded}},
                  {kMachine, kFree},
                  "What to cache in memory between epochs. bytes: files as stored. decoded: "
                  "decoded and resized images. auto: decoded if all images fit and their pixels do "
                  "not change between epochs, else bytes for network storage, else none. At most a "
                  "quarter of the available memory is used, shared by all ranks of a host.")}),
      within(
          &TrainConfig::ranks,
          {opt(&RanksConfig::launch, "ranks", auto_or(1, 4096, "processes"),
               {kRanks, kBits, kRanksOfHost, kFirst},
               "Start this many processes to train one model, like `kiln launch`. auto: one per "
               "GPU of this host, or just this process if there is none.")
               .with(&Option::value_name, "N|auto"),
           opt(&RanksConfig::device, "device", kDevices, {kMachine, kBits},
               "Device to train on. auto: the GPU if an NVIDIA device is present, else the CPU."),
           opt(&RanksConfig::deterministic, "deterministic", on_off(), {kMachine, kBits},
               "Make runs on a GPU with the same seed bit-for-bit reproducible, as runs on a CPU "
               "always are. Slower: cuDNN cannot benchmark its convolution algorithms and pick the "
               "fastest.")}),
      within(&TrainConfig::optimization,
             {opt(&OptimizationConfig::precision, "precision", kPrecisions,
                  {kTraining, kResult, kOfRecipe},
                  "Numeric precision. fp32: float32; on GPUs, convolutions in TF32. tf32: linear "
                  "layers too. bf16, fp16: mixed precision, faster on GPUs, with float32 weights. "
                  "auto: bf16 on GPUs from compute capability 8.0, fp16 on older ones; on CPUs "
                  "with AMX or AVX512-BF16 bf16 for images of 128 pixels or more; else fp32."),
              opt(&OptimizationConfig::save, "save",
                  {{"best", SaveChoice::kBest}, {"last", SaveChoice::kLast}},
                  {kReporting, kResult, kParameter},
                  "Which epoch's model to save: the best one (see --best-by), or the last.")}),
      within(&TrainConfig::output,
             {opt(&OutputConfig::no_hashes, "no-hashes", on_off(), {kReporting, kFree},
                  "Leave seen_images.bin and features.safetensors out of the model: hashes and "
                  "features of its training and validation images, which reveal whether it has "
                  "seen an image."),
              opt(&OutputConfig::keep_features, "keep-features", on_off(), {kReporting, kFree},
                  "Keep the features and names of all training images in the model, for "
                  "--neighbors of score and serve: training_features.safetensors, 512 bytes an "
                  "image or less. Takes one more pass over them."),
              opt(&OutputConfig::no_pictures, "no-pictures", on_off(), {kReporting, kFree},
                  "Leave the pictures of images out of report.html and TensorBoard, and write no "
                  "other file with pictures."),
              opt(&OutputConfig::mlflow_pictures, "mlflow-pictures", on_off(), {kReporting, kFree},
                  "Send report.html to MLflow with its pictures of images."),
              opt(&OutputConfig::log_path, "log-path", path("DIR"),
                  {kReporting, kFree, kForOneRun, kMayDiffer, kFirst},
                  "Folder for the log file, the metrics (metrics.jsonl, epochs.csv, tensorboard) "
                  "and error_info.json, in module_statistics."),
              opt(&OutputConfig::explain, "explain", path("DIR"), {kReporting, kFree, kForOneRun},
                  "Folder for heat maps of the validation mistakes in the report: what in the "
                  "image led to the saved model's prediction.")})};
}

Rows<DataConfig> dataset_rows() {
  using Config = DataConfig;
  return {
      opt(&Config::transform_path, "transform-path", input_path("DIR"), {kImages, kFree, kFolderIn},
          "TransformationDirectory, as written by `kiln transform init`, instead of --image-size, "
          "--augment, --eval-resize and --eval-crop: its operations are applied to each training "
          "image, with new random draws in each epoch. Validation and inference skip those whose "
          "names begin with Random."),
      within(
          &Config::split,
          {opt(&SplitConfig::data_path, "data-path", input_path("DIR"),
               {kPaths, kFree, kFirst, kPositional},
               "All images, in the same formats, to be split into training and validation images; "
               "the option's name may be omitted. With --valid-data-path, or train and val in the "
               "folder, it is the two paths instead; a list with a column split gives both. "
               "Duplicates stay on one side: identical bytes always, other sizes and qualities up "
               "to 20000 images. split.csv in the log folder lists the result."),
           opt(&SplitConfig::valid_fraction, "valid-fraction", share("X"), {kPaths, kResult},
               "Fraction of each class of --data-path used for validation, at least one image. The "
               "choice depends on the images (of more than 20000, on their paths) and "
               "--random-seed: adding images later moves only a few others."),
           opt(&SplitConfig::group_by, "group-by", regular_expression(), {kPaths, kResult},
               "Regular expression (ECMAScript) for image paths in --data-path. Images with the "
               "same first capture group, or the same match if there is no group, stay on one "
               "side; others are ungrouped."),
           opt(&SplitConfig::file, "split", input_path("FILE"), {kPaths, kFree},
               "split.csv of an earlier run, or another CSV file with columns path and set (train "
               "or valid), that assigns each image of --data-path."),
           opt(&SplitConfig::labels, "labels", input_path("FILE"), {kPaths, kFree},
               "CSV file with columns path and label that corrects labels of --data-path before it "
               "is split. A new label is a new class; images with an empty label, or leave out in "
               "a column decision, are dropped. For a folder without labels: a list of all of "
               "them, in any form.")}),
      within(&Config::records, record_rows().is(kResult)),
      within(&Config::records, task_rows().is(kResult)),
      within(&Config::stream, {opt(&StreamConfig::steps_per_epoch, "steps-per-epoch",
                                   from(1, 1000 * kMillion, "steps"), {kTraining, kResult},
                                   "Optimizer steps per epoch of a stream, whose length is "
                                   "unknown; an epoch ends earlier if its stream does."),
                               opt(&StreamConfig::shuffle_buffer, "shuffle-buffer",
                                   from(1, kMillion, "images"), {kImages, kResult},
                                   "Size of a stream's shuffle buffer in images, with 1 MiB each "
                                   "on average at most. 1: no shuffling.")})};
}

Words<Freeze> frozen_parts() {
  constexpr int kMostStages = 16;  // of any network
  Words<Freeze> words = {
      {"none", Freeze::kNone}, {"backbone", Freeze::kBackbone}, {"norm", Freeze::kNorm}};
  for (int stage = 1; stage <= kMostStages; ++stage)
    words.emplace_back("stage" + std::to_string(stage), static_cast<Freeze>(stage));
  return words;
}

Rows<OptimizationConfig> optimization_rows() {
  using Config = OptimizationConfig;
  return {
      opt(&Config::class_weights, "class-weights", class_weighting(), {kTraining, kResult},
          "Weight of an image in the training loss, by its class. balanced: all images / (classes "
          "x images of its class). sqrt: the square root of that, scaled so that the mean weight "
          "of all images is 1. cat=1,dog=2.5, or a CSV file with columns class and weight: these, "
          "of all classes. Reported losses stay unweighted."),
      opt(&Config::sample, "sample",
          {{"shuffle", Sampling::kShuffle}, {"balanced", Sampling::kBalanced}},
          {kTraining, kResult},
          "Which images an epoch has. shuffle: each once. balanced: the same number in all, but "
          "equally many from every class; images of small classes repeat, augmented differently, "
          "and those of large classes take turns over the epochs."),
      opt(&Config::best_by, "best-by",
          {{"top1", BestBy::kTop1},
           {"loss", BestBy::kLoss},
           {"macro-recall", BestBy::kMacroRecall},
           {"map", BestBy::kMap},
           {"macro-f1", BestBy::kMacroF1}},
          {kReporting, kResult},
          "The epoch that --save best saves. top1: the highest validation top-1; ties go to the "
          "lowest loss. loss: the lowest validation loss. macro-recall: the highest mean recall "
          "over the classes that have validation images. map, macro-f1: with --task multi-label, "
          "the highest mean over the classes of the average precision (then the default), or of "
          "the F1."),
      opt(&Config::freeze, "freeze", frozen_parts(), {kTraining, kResult},
          "Layers that are not trained. backbone: all but the last linear layer; with --augment "
          "none each image goes through the network once, and the layer is fitted to the features "
          "instead of training for epochs. norm: BatchNorm and LayerNorm. stage2: all up to the "
          "second stage of the network; docs/networks.md says which layers are one.")
          .with(&Option::value_name, "none|backbone|norm|stageN"),
      opt(&Config::head_learning_rate, "head-learning-rate", above_zero(1000), {kTraining, kResult},
          "Learning rate of the last linear layer, scheduled and scaled like --learning-rate, "
          "which is the default."),
      opt(&Config::layer_decay, "layer-decay", above_zero(1), {kTraining, kResult},
          "For ConvNeXt and vision transformers: the learning rate of a stage (see --freeze) as a "
          "multiple of that of the next; the last one's is of the head's. 1: off."),
      opt(&Config::folds, "folds", from(0, 20, "parts"), {kTraining, kResult},
          "Cross-validation, for --freeze backbone and --augment none: split the training images "
          "into this many folds, and judge each by a layer fitted to the others; the saved one is "
          "fitted to all. 0: off."),
      opt(&Config::asked_auto, "auto", true_or_false(), {kTraining, kResult, kFirst},
          "True: fit the last linear layer to the features of the frozen network, then fine-tune "
          "the entire network from there while --time-limit allows, and keep that unless the first "
          "is better on the validation images. Default: True for --data-path with given weights "
          "and under 5000 images, unless an option that it decides is given, such as --freeze, "
          "--epochs or --learning-rate."),
      opt(&Config::time_limit_s, "time-limit", duration(), {kTraining, kResult, kForOneRun, kFirst},
          "Finish within this time (such as 30min; units s, min, h), including restarts, with the "
          "best model so far. After the first epoch the schedule is set to as many epochs as fit: "
          "at most --epochs, or 90 if that is omitted."),
      opt(&Config::steps, "steps", from(1, 1000 * kMillion, "steps"), {kTraining, kResult},
          "Stop after this many optimizer steps, even in the middle of an epoch. The schedule "
          "covers --epochs, or if that is omitted these steps; with --time-limit, whole epochs.")};
}

Rows<RecipeConfig> recipe_rows() {
  using Config = RecipeConfig;
  return {
      opt(&Config::name, "recipe", one_of({"designer", "modern"}),
          {kRecipe, kFree, kForOneRun, kFirst},
          "A set of options, each of which can be overridden; the first log lines list them. "
          "designer: the defaults. modern: higher accuracy in the same number of epochs; see "
          "docs/recipes.md."),
      opt(&Config::optimizer, "optimizer", named(kKnownOptimizers), {kRecipe, kResult, kOfRecipe},
          descriptions(kKnownOptimizers)),
      opt(&Config::momentum, "momentum", from(0, 1), {kRecipe, kResult, kOfRecipe},
          "Momentum of sgd; beta1 of adamw."),
      opt(&Config::weight_decay, "weight-decay", from(0, 1), {kRecipe, kResult, kOfRecipe},
          "Weight decay: sgd adds this multiple of the weights to the gradient; adamw shrinks "
          "weights by it, times the learning rate."),
      opt(&Config::decays_norm_and_bias, "no-decay", {{"none", true}, {"norm-and-bias", false}},
          {kRecipe, kResult, kOfRecipe},
          "Parameters without weight decay. norm-and-bias: those of normalization layers, and "
          "biases."),
      opt(&Config::clip_norm, "clip-norm", from(0, kMillion), {kRecipe, kResult, kOfRecipe},
          "Clip the gradient of a step, summed over all ranks, to this norm. 0: off."),
      opt(&Config::ema, "ema", from(0, 1), {kRecipe, kResult, kOfRecipe},
          "Keep an exponential moving average of the weights with this decay, such as 0.999; it is "
          "validated and saved. 0: off."),
      opt(&Config::schedule, "lr-schedule", named(kKnownSchedules), {kRecipe, kResult, kOfRecipe},
          "How the learning rate falls after warm-up. " + descriptions(kKnownSchedules)),
      opt(&Config::label_smoothing, "label-smoothing", from(0, 1), {kRecipe, kResult, kOfRecipe},
          "Share of each label that the training loss spreads over all classes. Reported losses do "
          "not include it."),
      opt(&Config::mixup, "mixup", from(0, 100), {kRecipe, kResult, kOfRecipe},
          "Blend pairs of training images and their labels, by a share drawn from Beta(X, X). 0: "
          "off."),
      opt(&Config::cutmix, "cutmix", from(0, 100), {kRecipe, kResult, kOfRecipe},
          "Paste rectangles between pairs of training images, with an area drawn from Beta(X, X); "
          "with --mixup, a pair gets either. 0: off.")};
}

Rows<TrainConfig> rank_rows() {
  return {
      within(&TrainConfig::optimization,
             {opt(&OptimizationConfig::lr_scaling, "lr-scaling", rate_scaling(),
                  {kRanks, kResult, kParameter},
                  "Factor applied to --learning-rate. linear: the number of processes. sqrt: its "
                  "square root. none: 1. X: this factor. For large batches or short runs, sqrt or "
                  "warm-up often works better.")}),
      within(&TrainConfig::data,
             {opt(&DataConfig::shard_by, "shard-by",
                  {{"rank", ShardBy::kRank},
                   {"none", ShardBy::kNone},
                   {"train", ShardBy::kTrain},
                   {"record", ShardBy::kRecord},
                   {"host", ShardBy::kHost}},
                  {kRanks, kResult},
                  "rank: all processes see the same dataset, and each takes a shard of it. none: "
                  "each host (or each process, by its data paths) already has its own shard; "
                  "classes are merged, and the smallest shard determines the steps per epoch. "
                  "train: the same, but the validation images are identical everywhere and are "
                  "sharded by rank. record: like train, for streams with the same images on every "
                  "rank: each takes every n-th. host: like train, but what all hosts have at the "
                  "same path, they divide: of n hosts each takes every n-th image of a stream.")}),
      within(&TrainConfig::optimization,
             {opt(&OptimizationConfig::accumulate, "accumulate", from(1, kMillion, "batches"),
                  {kRanks, kBits, kParameter},
                  "Batches that each process accumulates before an optimizer step.")}),
      within(&TrainConfig::ranks,
             {opt(&RanksConfig::sync_batch_norm, "sync-batch-norm", on_off(),
                  {kRanks, kResult, kParameter},
                  "Compute BatchNorm statistics over the global batch."),
              opt(&RanksConfig::collective_timeout_s, "collective-timeout",
                  from(1, 86400, "seconds"), {kRanks, kFree},
                  "Fail the job after waiting this long for other ranks; each fifth of it, the "
                  "missing ranks are logged."),
              opt(&RanksConfig::expect_ranks, "expect-ranks", from(1, kMillion, "processes"),
                  {kRanks, kFree}, "Fail unless the job has exactly this many ranks.")})};
}

Rows<TrainConfig> train_rows() {
  return {
      component_rows(),
      opt(&TrainConfig::run_path, "run-path", path("DIR"),
          {kPaths, kFree, kForOneRun, kMayDiffer, kFirst},
          "Folder of this run, with its model, logs and checkpoints; the options for these three "
          "go before it. Commands that take a model or a log folder take a run's, too."),
      json_row<TrainConfig>({kReporting, kFree, kForOneRun}),
      within(&TrainConfig::data, within(&DataConfig::network, network_rows())),
      opt(&TrainConfig::options_file, "config", path("FILE"),
          {kPaths, kFree, kFileIn, kForOneRun, kMayDiffer},
          "YAML or JSON file that sets any of these options; flags override it. Relative paths in "
          "it are relative to the working directory."),
      within(&TrainConfig::data, image_rows()),
      machine_rows(),
      within(&TrainConfig::data, dataset_rows()),
      within(&TrainConfig::optimization, optimization_rows()),
      within(&TrainConfig::optimization, within(&OptimizationConfig::recipe, recipe_rows())),
      within(&TrainConfig::checkpoint,
             {opt(&CheckpointConfig::path, "checkpoint-path", path("DIR"),
                  {kOfCheckpoints, kFree, kCheckpoints, kForOneRun, kMayDiffer, kFirst},
                  "Folder for checkpoints, from which the same command resumes after a stop; the "
                  "newest two are kept. If omitted, one is in --log-path until the run has ended, "
                  "but on platforms none."),
              opt(&CheckpointConfig::every, "checkpoint-every", intervals(),
                  {kOfCheckpoints, kFree, kForOneRun},
                  "When to write a checkpoint: intervals with a unit (epoch, step, s, min or h), "
                  "separated by commas; whichever comes first."),
              opt(&CheckpointConfig::resume, "resume",
                  {{"auto", ResumeChoice::kAuto},
                   {"never", ResumeChoice::kNever},
                   {"require", ResumeChoice::kRequire}},
                  {kOfCheckpoints, kFree, kForOneRun},
                  "auto: resume from the newest checkpoint, if there is one. never: start over; "
                  "old checkpoints are removed once a new one is written. require: fail if there "
                  "is none.")}),
      within(
          &TrainConfig::output,
          {opt(&OutputConfig::kfp_executor_input, "kfp-executor-input",
               path("JSON", ValueKind::kText), {kReporting, kFree, kKubeflowRun, kForOneRun},
               "The JSON that Kubeflow Pipelines substitutes for {executorInput: null}; the saved "
               "epoch's metrics go to its output of type Metrics."),
           opt(&OutputConfig::trace_path, "trace", path("FILE"), {kReporting, kFree, kForOneRun},
               "Write a timeline of steps 20 to 40 for chrome://tracing or ui.perfetto.dev: steps "
               "and their phases, the device, all-reduces, and the loader threads. Rank 0 writes "
               "FILE; the others write their own files next to it, such as trace-rank1.json."),
           opt(&OutputConfig::price_per_hour, "price-per-hour", above_zero(kMillion),
               {kReporting, kFree},
               "Cost per hour of all machines of the run, in any currency: the forecast, the "
               "result and the report then include costs.")}),
      rank_rows(),
      within(&TrainConfig::ranks,
             {opt(&RanksConfig::exchange, "exchange", exchange(), {kRanks, kResult},
                  "How processes combine their gradients. " + descriptions(kKnownExchanges))})};
}

}  // namespace

TrainConfig bound(const TrainConfig& asked, const Settings& settings) {
  TrainConfig config = asked;
  config.settings = settings;
  const Rows<TrainConfig> rows = train_rows();
  for (const Row<TrainConfig>& row : rows.all) {
    const std::string& text = settings.text(row.option.name);
    if (text != asked.settings.text(row.option.name))
      row.fill(config, row.option, text, "--" + row.option.name);
  }
  return config;
}

CommandInfo train_command() {
  CommandInfo info = command("train", "Train a model on labeled images and write a ModelDirectory.",
                             "PHOTOS [VALIDATION-PHOTOS] [options]", train_rows(), check_train,
                             {imply_usual, imply_recipe});
  info.examples = {"kiln train photos                      # photos has a folder for each class",
                   "kiln train photos --weights torchvision --time-limit 30min",
                   "kiln train photos/train photos/val --epochs 30 --run-path runs/second",
                   "# A path alone gets --recipe modern and 10 minutes, not these defaults."};
  return info;
}

}  // namespace kiln
