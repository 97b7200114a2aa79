#include "config/train_options.h"

#include "config/option_kinds.h"

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

}  // namespace

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
                        "Where the list of the training images is kept between runs, and with "
                        "-valid after the name that of the validation images. Without it: beside "
                        "the data, where there are many and that can be written."),
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

}  // namespace kiln
