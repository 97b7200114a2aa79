// `kiln train`: its options, and the struct that they become.
#include "config/binder.h"
#include "config/option_rows.h"

namespace kiln {
namespace {

// The component's eleven, in its order.
std::vector<Option> component_options() {
  Option learning_rate = {.name = "learning-rate",
                          .value_name = "X",
                          .default_text = "0.001",
                          .unit = "",
                          .group = kTraining,
                          .help = "Learning rate at the start, or after warm-up.",
                          .kind = ValueKind::kNumber,
                          .minimum = 0,
                          .maximum = 1000};
  return {
      required_path("untrained-model-path", "DIR",
                    "UntrainedModelDirectory to train, as `kiln init-model` writes it."),
      required_path("train-data-path", "DIR",
                    "Training images: an ImageDirectory, class folders, a COCO folder, an archive "
                    "or a folder of shards."),
      required_path("valid-data-path", "DIR", "Validation images, in the same forms."),
      required_path("trained-model-path", "DIR", "Where the ModelDirectory is written."),
      integer("epochs", "5", 1, kMillion, "epochs", kTraining, "Passes over the training images."),
      integer("batch-size", "16", 1, kMillion, "images", kTraining,
              "Images in one training step (per process)."),
      integer("num-warmup-steps", "0", 0, kMillion, "epochs", kTraining,
              "Epochs over which the learning rate climbs to its peak."),
      learning_rate,
      seed(kTraining, "Fixes the initial weights and the order of the images."),
      integer("patience", "3", 1, kMillion, "epochs", kTraining,
              "Stop after so many epochs in a row without a lower validation loss."),
      integer("print-freq", "10", 1, 1000 * kMillion, "steps", kReporting,
              "Steps from one log line to the next."),
  };
}

// What only a job of several processes uses.
std::vector<Option> rank_options() {
  Option lr_scaling = {
      .name = "lr-scaling",
      .value_name = "linear|sqrt|none|X",
      .default_text = "linear",
      .unit = "",
      .group = kRanks,
      .help =
          "What --learning-rate is multiplied by: the number of processes, its square root, 1, "
          "or X. linear is what the component does; for large batches or short runs sqrt, or "
          "warm-up, is often better.",
      .kind = ValueKind::kChoiceOrNumber,
      .minimum = 0,
      .maximum = 1000 * kMillion,
      .choices = {"linear", "sqrt", "none"}};
  Option expected = integer("expect-ranks", "", 1, 1'000'000, "processes", kRanks,
                            "Stop unless exactly so many processes have found each other.");
  return {
      lr_scaling,
      choice(
          "shard-by", {"rank", "none", "train"}, kRanks,
          "rank: the processes divide one data set. none: each host has been given its own part, "
          "or each process by its own data paths; classes are joined, and all make as many steps "
          "as the smallest part allows. train: likewise, but all have the same validation images, "
          "and divide them."),
      choice("scan", {"once", "each"}, kRanks,
             "Process 0 reads the image folders and tells the others, or each reads for itself and "
             "they compare."),
      integer("accumulate", "1", 1, kMillion, "batches", kRanks,
              "Batches of each process that make one training step."),
      yes_or_no("sync-batch-norm", ValueKind::kSwitch, "False", kRanks,
                "BatchNorm uses the joined batch of all processes."),
      integer("bucket-mb", "25", 1, 4096, "MiB", kRanks,
              "Gradients are summed over the processes in portions of this size."),
      choice("gradient-dtype", {"fp32", "bf16"}, kRanks,
             "Number type in which gradients travel; bf16 halves the traffic and rounds."),
      integer("collective-timeout", "300", 1, 86400, "seconds", kRanks,
              "How long a process waits for the others before the job ends."),
      integer("stall-warning", "60", 1, 86400, "seconds", kRanks,
              "After so long a waiting process says which others are missing, and again."),
      expected,
  };
}

std::vector<Option> tracking_options() {
  return {
      yes_or_no("mlflow-log-model", ValueKind::kSwitch, "False", kReporting,
                "Send the ModelDirectory to MLflow too, where MLFLOW_TRACKING_URI names a server."),
      optional_path("kfp-executor-input", "JSON", "", kReporting,
                    "What Kubeflow Pipelines puts in for {executorInput: null}: the metrics of the "
                    "saved epoch go to its output of type Metrics."),
      optional_path("kfp-metrics", "FILE", "", kReporting,
                    "Write the metrics of the saved epoch as Kubeflow Pipelines 1 reads them."),
  };
}

std::vector<Option> train_options() {
  std::vector<Option> options = component_options();
  Option max_bad = {.name = "max-bad-images",
                    .value_name = "N|N%",
                    .default_text = "1%",
                    .unit = "images, or percent of a data set",
                    .group = kImages,
                    .help = "Bad images that --on-bad-image skip puts up with, per data set.",
                    .kind = ValueKind::kAllowance,
                    .minimum = 0,
                    .maximum = 1000 * kMillion};
  append(options,
         {optional_path("config", "FILE", "", kPaths,
                        "YAML or JSON file with any of these options; a flag wins over the file. "
                        "Relative paths in it start at the working folder."),
          optional_path("index", "FILE", "", kPaths,
                        "File that caches the listing of the training dataset between runs; "
                        "validation uses FILE-valid. Default: a file in ~/.cache/kiln for datasets "
                        "of 1000 images or more."),
          integer("image-size", "auto", 16, 2048, "pixels", kImages,
                  "Height and width that images are brought to. auto: as stored when all share one "
                  "size, else 224."),
          choice("augment", {"none", "flip", "standard", "strong"}, kImages,
                 "How training images are varied. flip: mirrored half the time. standard: a random "
                 "part, flipped. strong: standard, TrivialAugmentWide and random erasing."),
          integer("eval-resize", "auto", 16, 4096, "pixels", kImages,
                  "Short side that validation images are resized to. auto: 256/224 of --eval-crop; "
                  "images of that size already stay as they are."),
          integer("eval-crop", "auto", 16, 2048, "pixels", kImages,
                  "Height and width of the centre that validation looks at. auto: as in training."),
          choice("normalization", {"auto", "half", "imagenet"}, kImages,
                 "Mean and standard deviation: half is 0.5 and 0.5. auto: imagenet for pretrained "
                 "models, else half."),
          choice("on-bad-image", {"skip", "fail"}, kImages,
                 "Leave images out that cannot be decoded, or stop at the first."),
          max_bad,
          integer("loader-threads", "auto", 1, 256, "threads", kMachine,
                  "Threads that decode images."),
          integer("threads", "auto", 1, 1024, "threads", kMachine, "Threads that compute."),
          choice("cache", {"auto", "none", "bytes", "decoded"}, kMachine,
                 "Keep images in memory between epochs: files as stored, or decoded and resized. "
                 "auto: decoded where all fit and every epoch takes the same pixels, else bytes of "
                 "network storage."),
          integer("cache-bytes", "auto", 1, kMillion * 1'000'000'000, "bytes", kMachine,
                  "Most memory for that. auto: a quarter of what is available, shared by the "
                  "processes of a host."),
          integer("read-ahead", "auto", 1, 4096, "files", kMachine,
                  "Files to read before they are decoded. auto: 64 where reading is slow."),
          ranks(false, kRanks,
                "Start so many processes that train one model, as `kiln launch` does. auto: one "
                "for each GPU of this host, or this process alone where there is none."),
          choice("device", {"auto", "cuda", "cpu"}, kMachine,
                 "Where to train. auto: the CPU only where no NVIDIA device is present."),
          choice("save", {"best", "last"}, kReporting,
                 "The epoch that is written: the one with the best top-1, or the last."),
          optional_path("log-path", "DIR", "logs", kReporting,
                        "Folder of the log file, of the run's numbers (metrics.jsonl, epochs.csv, "
                        "tensorboard) and of module_statistics/error_info.json."),
          plain()});
  append(options, tracking_options());
  append(options, rank_options());
  return options;
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
  if (config.cache != CachePolicy::kDecoded || !takes_random_parts(config.augment)) return;
  binder.fault("cache", ErrorCode::kParameterParsing,
               "--cache decoded keeps pixels, but --augment " + augment_name(config.augment) +
                   " takes others in every epoch: use --cache bytes or auto.");
}

DataConfig bind_data(Binder& binder) {
  DataConfig config;
  config.untrained_model_path = binder.path("untrained-model-path");
  config.train_path = binder.path("train-data-path");
  config.valid_path = binder.path("valid-data-path");
  config.index_path = binder.path("index");
  config.image_size = binder.small_integer("image-size");
  config.augment = binder.augment();
  config.eval_resize = binder.small_integer("eval-resize");
  config.eval_crop = binder.small_integer("eval-crop");
  binder.check("eval-resize", [&] {
    check_eval_size(config.eval_resize,
                    config.eval_crop > 0 ? config.eval_crop : config.image_size);
  });
  config.normalization = normalization_choice(binder.choice("normalization"));
  config.cache = cache_choice(binder.choice("cache"));
  config.cache_bytes = binder.integer("cache-bytes");
  check_cache(binder, config);
  config.read_ahead = binder.small_integer("read-ahead");
  config.loader_threads = binder.small_integer("loader-threads");
  config.on_bad_image =
      binder.choice("on-bad-image") == "fail" ? OnBadImage::kFail : OnBadImage::kSkip;
  config.max_bad_images = binder.allowance("max-bad-images");
  const std::string sharding = binder.choice("shard-by");
  config.has_train_shard = sharding != "rank";
  config.has_valid_shard = sharding == "none";
  config.scan_each = binder.choice("scan") == "each" || config.has_train_shard;
  return config;
}

OptimizationConfig bind_optimization(Binder& binder) {
  OptimizationConfig config;
  config.epochs = binder.small_integer("epochs");
  config.batch_size = binder.small_integer("batch-size");
  config.accumulate = binder.small_integer("accumulate");
  config.num_warmup_steps = binder.small_integer("num-warmup-steps");
  config.learning_rate = binder.number("learning-rate");
  config.lr_scaling = binder.rate_scaling("lr-scaling");
  config.random_seed = binder.integer("random-seed");
  config.patience = binder.small_integer("patience");
  config.save = binder.choice("save") == "last" ? SaveChoice::kLast : SaveChoice::kBest;
  return config;
}

RanksConfig bind_ranks(Binder& binder) {
  RanksConfig config;
  config.device = binder.device();
  config.threads = binder.small_integer("threads");
  config.launch = binder.ranks();
  config.arguments = binder.words();
  config.expect_ranks = binder.small_integer("expect-ranks");
  config.sync_batch_norm = binder.boolean("sync-batch-norm");
  config.bucket_mb = binder.small_integer("bucket-mb");
  config.bfloat16_gradients = binder.choice("gradient-dtype") == "bf16";
  config.collective_timeout_s = binder.small_integer("collective-timeout");
  config.stall_warning_s = binder.small_integer("stall-warning");
  return config;
}

OutputConfig bind_output(Binder& binder) {
  OutputConfig config;
  config.trained_model_path = binder.path("trained-model-path");
  config.log_path = binder.path("log-path");
  config.log_path_given = binder.given("log-path");
  config.print_freq = binder.small_integer("print-freq");
  config.plain = binder.plain();
  config.mlflow_log_model = binder.boolean("mlflow-log-model");
  config.kfp_executor_input = binder.path("kfp-executor-input");
  config.kfp_metrics = binder.path("kfp-metrics");
  return config;
}

void check_paths(Binder& binder, const DataConfig& data, const OutputConfig& output) {
  const std::string& model = output.trained_model_path;
  require_apart(binder, "trained-model-path", model, "untrained-model-path",
                data.untrained_model_path);
  require_apart(binder, "trained-model-path", model, "train-data-path", data.train_path);
  require_apart(binder, "trained-model-path", model, "valid-data-path", data.valid_path);
  if (lies_inside(output.log_path, model)) {
    binder.fault(output.log_path_given ? "log-path" : "trained-model-path",
                 ErrorCode::kParameterParsing,
                 "--log-path '" + output.log_path + "' lies in --trained-model-path '" + model +
                     "', which holds the model alone: give --log-path another folder.");
  }
}

Command bind_train(Binder& binder) {
  TrainConfig config{.data = bind_data(binder),
                     .optimization = bind_optimization(binder),
                     .ranks = bind_ranks(binder),
                     .output = bind_output(binder),
                     .effective_options = binder.effective_options(),
                     .overridden = binder.overridden()};
  binder.path("config");
  check_paths(binder, config.data, config.output);
  return config;
}

}  // namespace

void check_eval_size(int short_side, int crop) {
  if (short_side == 0 || short_side >= crop) return;
  throw Error(ErrorCode::kParameterParsing,
              "--eval-resize is " + std::to_string(short_side) +
                  ", but validation looks at a centre of " + std::to_string(crop) +
                  " pixels: give --eval-resize " + std::to_string(crop) +
                  " or more, or a smaller --eval-crop.");
}

CommandInfo train_command() {
  return {"train", "Train an untrained model on images into a ModelDirectory.",
          "--untrained-model-path DIR --train-data-path DIR --valid-data-path DIR "
          "--trained-model-path DIR [options]",
          train_options(), bind_train};
}

}  // namespace kiln
