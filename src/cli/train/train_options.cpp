// The options of `kiln train`, and the struct that holds their values.
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

// The eleven options of the designer's component, in its order.
std::vector<TrainOption> component_options() {
  Option model = required_path("untrained-model-path", "DIR",
                               "UntrainedModelDirectory to train, as written by `kiln init-model`, "
                               "or a trained model to continue from: its folder or model.tar.gz.");
  model.instead = "model-name";
  Option train_data = required_path(
      "train-data-path", "DIR",
      "Training images: an ImageDirectory, class folders, a COCO folder, an archive, "
      "record files (TFRecord, RecordIO) or a folder of shards. Or a stream (tar, "
      "TFRecord, RecordIO): a named pipe, - for standard input, or a path with "
      "{epoch}, which is replaced by the epoch number, from 0 at each start. {rank} in "
      "a path is replaced by the rank's number on its host: each has its own images.");
  Option valid_data =
      required_path("valid-data-path", "DIR",
                    "Validation images, in the same formats; a stream is read once and kept.");
  train_data.instead = valid_data.instead = "data-path";
  return {

      {Effect::kFree, model},
      {Effect::kFree, train_data},
      {Effect::kFree, valid_data},
      {Effect::kFree,
       required_path("trained-model-path", "DIR", "Output folder for the ModelDirectory.")},
      {Effect::kFree, integer("epochs", "5", 1, kMillion, "epochs", kTraining,
                              "Passes over the training dataset.")},
      {Effect::kBits, integer("batch-size", "16", 1, kMillion, "images", kTraining,
                              "Images per batch in each process.")},
      {Effect::kResult,
       number_from("num-warmup-steps", "0", 0, kMillion, "epochs", kTraining,
                   "Epochs (not steps) of learning-rate warm-up; may be fractional, such as 2.5.")},
      {Effect::kResult, number("learning-rate", "0.001", 1000, kTraining,
                               "Initial learning rate, or peak learning rate after warm-up.")},
      {Effect::kResult,
       seed(kTraining, "Seed for weight initialization, image order and augmentation.")},
      {Effect::kResult,
       integer("patience", "3", 1, kNoEarlyStop, "epochs", kTraining,
               "Stop early after this many consecutive epochs whose validation loss is not below "
               "the previous epoch's.")},
      {Effect::kFree, integer("print-freq", "10", 1, 1000 * kMillion, "steps", kReporting,
                              "Steps between log lines.")},
  };
}

// Options for jobs with multiple ranks.
std::vector<TrainOption> rank_options() {
  Option lr_scaling = {
      .name = "lr-scaling",
      .value_name = "linear|sqrt|none|X",
      .default_text = "linear",
      .unit = "",
      .group = kRanks,
      .help =
          "Factor applied to --learning-rate. linear: the number of processes. sqrt: its square "
          "root. none: 1. X: this factor. For large batches or short "
          "runs, sqrt or warm-up often works better.",
      .kind = ValueKind::kChoiceOrNumber,
      .minimum = 0,
      .maximum = 1000 * kMillion,
      .choices = {"linear", "sqrt", "none"}};
  Option expected = integer("expect-ranks", "", 1, 1'000'000, "processes", kRanks,
                            "Fail unless the job has exactly this many ranks.");
  return {

      {Effect::kResult, lr_scaling},
      {Effect::kResult,
       choice(
           "shard-by", {"rank", "none", "train", "record", "host"}, kRanks,
           "rank: all processes see the same dataset, and each takes a shard of it. none: each "
           "host (or each process, by its data paths) already has its own shard; classes are "
           "merged, and the smallest shard determines the steps per epoch. train: the same, but "
           "the validation images are identical everywhere and are sharded by rank. record: like "
           "train, for streams with the same images on every rank: each takes every n-th. host: "
           "like train, but what all hosts have at the same path, they divide: of n hosts each "
           "takes every n-th image of a stream.")},
      {Effect::kBits, integer("accumulate", "1", 1, kMillion, "batches", kRanks,
                              "Batches that each process accumulates before an optimizer step.")},
      {Effect::kResult, yes_or_no("sync-batch-norm", ValueKind::kSwitch, "False", kRanks,
                                  "Compute BatchNorm statistics over the global batch.")},
      {Effect::kBits,
       choice(
           "gradient-dtype", {"fp32", "bf16"}, kRanks,
           "Data type of the gradient all-reduce; bf16 halves the traffic at reduced precision.")},
      {Effect::kFree, integer("collective-timeout", "300", 1, 86400, "seconds", kRanks,
                              "Fail the job after waiting this long for other ranks; each fifth of "
                              "it, the missing ranks are logged.")},
      {Effect::kFree, expected},
  };
}

std::vector<TrainOption> tracking_options() {
  return {

      {Effect::kFree,
       yes_or_no(
           "mlflow-log-model", ValueKind::kSwitch, "False", kReporting,
           "Also upload the ModelDirectory to the MLflow server named by MLFLOW_TRACKING_URI.")},
      {Effect::kFree,
       optional_path("kfp-executor-input", "JSON", "", kReporting,
                     "The JSON that Kubeflow Pipelines substitutes for {executorInput: null}; the "
                     "saved epoch's metrics go to its output of type Metrics.")},
  };
}

void append(std::vector<TrainOption>& options, const std::vector<TrainOption>& more) {
  options.insert(options.end(), more.begin(), more.end());
}

std::vector<Option> train_options() {
  std::vector<TrainOption> options = component_options();
  append(options, network_options());
  append(options,
         {{Effect::kFree,
           optional_path("config", "FILE", "", kPaths,
                         "YAML or JSON file that sets any of these options; flags override it. "
                         "Relative paths in it are relative to the working directory.")}});
  append(options, image_size_options());
  append(
      options,
      {{Effect::kResult,
        augment(
            "none",
            "Data augmentation for training images: a comma-separated list in any order, applied "
            "in the order given here. crop: random resized crop. flip, vflip: horizontal, vertical "
            "flip of half of the images. rotate90: by 0, 90, 180 or 270 degrees (by 0 or 180 where "
            "images are not square). color: brightness, contrast and saturation times 0.6 to 1.4. "
            "trivial: TrivialAugmentWide. erase: random erasing of a quarter of the images. "
            "standard: crop,flip. strong: crop,flip,trivial,erase.")},
       {Effect::kResult,
        choice("normalization", {"auto", "half", "imagenet"}, kImages,
               "Mean and standard deviation for normalization. half: 0.5 and 0.5. imagenet: those "
               "of ImageNet. auto: those that pretrained weights were trained with, or imagenet if "
               "unknown; half without pretrained weights.")},
       {Effect::kFree, choice("on-bad-image", {"skip", "fail"}, kImages,
                              "Skip images that cannot be decoded, or fail at the first one.")},
       {Effect::kFree,
        max_bad_images("Fail if more images of a dataset than this (or than this percentage, but "
                       "at least 1) cannot be decoded.")},
       {Effect::kFree,
        integer("loader-threads", "auto", 1, 256, "threads", kMachine,
                "Threads that load and decode images. auto: half of the processors at first, then "
                "as many as an epoch needed; with a GPU all but two.")},
       {Effect::kBits,
        integer("threads", "auto", 1, 1024, "threads", kMachine,
                "Compute threads. auto: one per processor, shared by the ranks of a host.")},
       {Effect::kFree,
        choice(
            "cache", {"auto", "none", "bytes", "decoded"}, kMachine,
            "What to cache in memory between epochs. bytes: files as stored. decoded: decoded "
            "and resized images. auto: decoded if all images fit and their pixels do not change "
            "between epochs, else bytes for network storage, else none. At most a quarter of the "
            "available memory is used, shared by all ranks of a host.")},
       {Effect::kBits,
        ranks(false, kRanks,
              "Start this many processes to train one model, like `kiln launch`. auto: one per GPU "
              "of this host, or just this process if there is none.")},
       {Effect::kBits,
        choice("device", {"auto", "cuda", "cpu"}, kMachine,
               "Device to train on. auto: the GPU if an NVIDIA device is present, else the CPU.")},
       {Effect::kBits, yes_or_no("deterministic", ValueKind::kSwitch, "False", kMachine,
                                 "Make runs on a GPU with the same seed bit-for-bit reproducible, "
                                 "as runs on a CPU always are. Slower: cuDNN cannot benchmark its "
                                 "convolution algorithms and pick the fastest.")},
       {Effect::kResult,
        precision(kTraining,
                  "Numeric precision. fp32: float32; on GPUs, convolutions in TF32. tf32: linear "
                  "layers too. bf16, fp16: mixed precision, faster on GPUs, with float32 weights. "
                  "auto: bf16 on GPUs from compute capability 8.0, fp16 on older ones; on CPUs "
                  "bf16 with AMX or AVX512-BF16, else fp32.")},
       {Effect::kResult,
        choice("save", {"best", "last"}, kReporting,
               "Which epoch's model to save: the best one (see --best-by), or the last.")},
       {Effect::kFree,
        yes_or_no("no-hashes", ValueKind::kSwitch, "False", kReporting,
                  "Leave seen_images.bin out of the model: the hashes of its training and "
                  "validation images, which reveal whether it has seen an image.")},
       {Effect::kFree,
        optional_path("log-path", "DIR", "logs", kReporting,
                      "Folder for the log file, the metrics (metrics.jsonl, epochs.csv, "
                      "tensorboard) and module_statistics/error_info.json.")},
       {Effect::kFree,
        optional_path("explain", "DIR", "", kReporting,
                      "Folder for heat maps of the validation mistakes in the report: what in the "
                      "image led to the saved model's prediction.")}});
  append(options, transform_options());
  append(options, split_options());
  append(options, train_record_options());
  append(options, stream_options());
  append(options, balance_options());
  append(options, fine_tuning_options());
  append(options, auto_options());
  append(options, length_options());
  append(options, recipe_options());
  append(options, checkpoint_options());
  append(options, tracking_options());
  append(options, insight_options());
  append(options, rank_options());
  append(options, exchange_options());
  std::vector<Option> plain_options;
  plain_options.reserve(options.size());
  for (TrainOption& row : options) plain_options.push_back(std::move(row.option));
  return plain_options;
}

NormalizationChoice normalization_choice(const std::string& word) {
  if (word == "half") return NormalizationChoice::kHalf;
  return word == "imagenet" ? NormalizationChoice::kImagenet : NormalizationChoice::kAuto;
}

CachePolicy cache_choice(const std::string& word) {
  if (word == "none") return CachePolicy::kNone;
  if (word == "bytes") return CachePolicy::kBytes;
  return word == "decoded" ? CachePolicy::kDecoded : CachePolicy::kAuto;
}

void check_cache(Binder& binder, const DataConfig& config) {
  if (config.cache != CachePolicy::kDecoded) return;
  if (config.first_image_size > 0)
    binder.fault("cache", ErrorCode::kParameterParsing,
                 "--cache decoded requires the same pixels in every epoch, but --image-size grows: "
                 "use --cache bytes or auto.");
  if (!takes_random_parts(config.augment)) return;
  binder.fault("cache", ErrorCode::kParameterParsing,
               "--cache decoded requires the same crop of an image in every epoch, but --augment " +
                   augment_name(config.augment) + " crops at random: use --cache bytes or auto.");
}

DataConfig bind_data(Binder& binder) {
  DataConfig config;
  config.untrained_model_path = binder.path("untrained-model-path");
  config.network = bind_network(binder);
  config.train_path = binder.path("train-data-path");
  config.valid_path = binder.path("valid-data-path");
  bind_image_sizes(binder, config);
  config.augment = binder.augment();
  bind_transform(binder, config);
  config.normalization = normalization_choice(binder.choice("normalization"));
  config.cache = cache_choice(binder.choice("cache"));
  check_cache(binder, config);
  config.loader_threads = binder.small_integer("loader-threads");
  config.records = bind_records(binder);
  bind_exif(binder, config.records);
  config.on_bad_image =
      binder.choice("on-bad-image") == "fail" ? OnBadImage::kFail : OnBadImage::kSkip;
  config.max_bad_images = binder.allowance("max-bad-images");
  const std::string sharding = binder.choice("shard-by");
  config.has_train_shard = sharding != "rank";
  config.has_valid_shard = sharding == "none";
  bind_stream(binder, config);
  config.split = bind_split(binder, config.has_train_shard);
  if (!config.split.data_path.empty())
    config.train_path = config.valid_path = config.split.data_path;
  return config;
}

OptimizationConfig bind_optimization(Binder& binder) {
  OptimizationConfig config;
  bind_length(binder, config);
  config.batch_size = binder.small_integer("batch-size");
  config.accumulate = binder.small_integer("accumulate");
  config.num_warmup_steps = binder.number("num-warmup-steps");
  config.learning_rate = binder.number("learning-rate");
  config.lr_scaling = binder.rate_scaling("lr-scaling");
  config.random_seed = binder.integer("random-seed");
  config.patience = binder.small_integer("patience");
  config.save = binder.choice("save") == "last" ? SaveChoice::kLast : SaveChoice::kBest;
  config.precision = precision_named(binder.choice("precision"));
  config.recipe = bind_recipe(binder);
  bind_balance(binder, config);
  bind_fine_tuning(binder, config);
  return config;
}

RanksConfig bind_ranks(Binder& binder) {
  RanksConfig config;
  config.device = binder.device();
  config.deterministic = binder.boolean("deterministic");
  config.threads = binder.small_integer("threads");
  config.launch = binder.ranks();
  config.arguments = binder.words();
  config.expect_ranks = binder.small_integer("expect-ranks");
  config.sync_batch_norm = binder.boolean("sync-batch-norm");
  config.exchange = binder.exchange();
  config.bfloat16_gradients = binder.choice("gradient-dtype") == "bf16";
  config.collective_timeout_s = binder.small_integer("collective-timeout");
  return config;
}

OutputConfig bind_output(Binder& binder) {
  OutputConfig config;
  config.trained_model_path = binder.path("trained-model-path");
  config.log_path = binder.path("log-path");
  config.log_path_given = binder.given("log-path");
  config.explain = binder.path("explain");
  config.print_freq = binder.small_integer("print-freq");
  config.no_hashes = binder.boolean("no-hashes");
  config.mlflow_log_model = binder.boolean("mlflow-log-model");
  config.kfp_executor_input = binder.path("kfp-executor-input");
  return config;
}

Command bind_train(Binder& binder) {
  imply_recipe(binder);
  TrainConfig config{.data = bind_data(binder),
                     .optimization = bind_optimization(binder),
                     .ranks = bind_ranks(binder),
                     .output = bind_output(binder),
                     .checkpoint = bind_checkpoint(binder),
                     .insight = bind_insight(binder),
                     .effective_options = {},
                     .overridden = binder.overridden()};
  config.effective_options = effective_options(binder, config.optimization);
  binder.path("config");
  settle_fine_tuning(binder, config);
  settle_auto(binder, config);
  settle_exchange(binder, config);
  settle_recipe(binder, config);
  check_train_paths(binder, config);
  return config;
}

}  // namespace

CommandInfo train_command() {
  return {
      "train", "Train a model on labeled images and write a ModelDirectory.",
      "--untrained-model-path DIR (or --model-name MODEL [--weights FILE]) --train-data-path DIR "
      "--valid-data-path DIR --trained-model-path DIR [options]",
      train_options(), bind_train};
}

}  // namespace kiln
