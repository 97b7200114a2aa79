#include "config/options.h"

#include <algorithm>
#include <iterator>

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
          "shard-by", {"rank", "none"}, kRanks,
          "rank: the processes divide one data set. none: each host has been given its own part, "
          "or each process by its own data paths; classes are joined, and all make as many steps "
          "as the smallest part allows."),
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
                        "Folder of the log file and of module_statistics/error_info.json.")});
  append(options, rank_options());
  return options;
}

std::vector<Option> launch_options() {
  return {
      ranks(true, kRanks,
            "Processes that train one model together. auto: one for each slot of --hosts, or else "
            "for each GPU of this host."),
      optional_path("hosts", "HOST:N,...", "", kRanks,
                    "Where to start them, with the number for each host (1 when left out). Without "
                    "it: on this host."),
      optional_path("log-path", "DIR", "logs", kReporting,
                    "The --log-path of train; 70_mpi_log.txt there keeps what mpirun and all ranks "
                    "say."),
  };
}

std::vector<Option> init_model_options() {
  Option model_name = {
      .name = "model-name",
      .value_name = "MODEL",
      .default_text = "",
      .unit = "",
      .group = kModel,
      .help = "The network; also accepted without its flag.",
      .kind = ValueKind::kModelName,
      .required = true,
      .positional = true,
      .choices = {"resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d",
                  "resnext101_32x8d", "wide_resnet50_2", "wide_resnet101_2", "densenet121",
                  "densenet161", "densenet169", "densenet201"}};
  return {
      model_name,
      required_path("untrained-model-path", "DIR", "Where the UntrainedModelDirectory is written."),
      optional_path("weights", "FILE", "", kModel,
                    "Pretrained weights: a torchvision state dict (.pth) or .safetensors, with the "
                    "1000-way head."),
      yes_or_no("pretrained", ValueKind::kBoolean, "", kModel,
                "True needs --weights, since nothing is downloaded. Without this flag: True when "
                "--weights is given."),
      yes_or_no("zero-init-residual", ValueKind::kSwitch, "False", kModel,
                "ResNet only: every residual branch starts at zero."),
      yes_or_no("memory-efficient", ValueKind::kSwitch, "False", kModel,
                "DenseNet only: computes parts again in the backward pass to save memory."),
      seed(kModel, "Fixes the initial weights."),
  };
}

std::vector<Option> inspect_options() {
  Option path = required_path("path", "PATH", "What to look at; also accepted without its flag.");
  path.positional = true;
  return {path,
          yes_or_no("json", ValueKind::kFlag, "", kReporting, "Print one JSON object, no table."),
          yes_or_no("check", ValueKind::kFlag, "", kReporting,
                    "Decode every image and list the bad ones; exit status 1 if there are any.")};
}

std::vector<Option> bench_loader_options() {
  return {
      required_path("data", "PATH", "Images: a folder or archive, as train takes them."),
      integer("size", "224", 16, 2048, "pixels", kImages,
              "Height and width that images are brought to."),
      choice("augment", {"standard", "none", "flip", "strong"}, kImages,
             "How images are varied, as in training."),
      integer("batch-size", "64", 1, kMillion, "images", kImages, "Images in a batch."),
      integer("passes", "3", 1, kMillion, "passes", kMachine,
              "Passes that are measured, after one that fills the page cache."),
      integer("step-ms", "0", 0, 60'000, "milliseconds", kMachine,
              "Sleep so long after every batch, in place of a training step."),
      integer("threads", "auto", 1, 256, "threads", kMachine,
              "Threads that decode; one more makes floats of bytes. auto: one for each processor."),
      integer("read-ahead", "auto", 1, 4096, "files", kMachine,
              "Files to read before they are decoded. auto: 64 where reading is slow."),
  };
}

std::vector<Option> bench_collective_options() {
  return {
      ranks(
          false, kRanks,
          "Processes to start. auto: one for each GPU of this host. Left out where mpirun or srun "
          "has started them."),
      choice("device", {"auto", "cuda", "cpu"}, kMachine,
             "Where the sums are: on GPUs they go over NCCL, on CPUs over MPI."),
      optional_path("log-path", "DIR", "logs", kReporting,
                    "Folder of 70_mpi_log.txt, which keeps what mpirun and all ranks say."),
  };
}

std::vector<Option> pack_options() {
  const std::string group = "Shards";
  return {
      required_path("input-path", "DIR", "Labelled images, in any form that train reads."),
      required_path("output-path", "DIR", "An empty folder for the shards."),
      integer("shard-mb", "256", 1, 1 << 20, "MiB", group, "A shard ends before it is larger."),
      integer("short-side", "auto", 16, 4096, "pixels", group,
              "Images with a longer short side are reduced to it and stored as JPEG. auto: all are "
              "stored as they are."),
      integer("quality", "92", 1, 100, "", group, "Of the JPEG that reduced images become."),
      yes_or_no("shuffle", ValueKind::kSwitch, "False", group, "Store them in a random order."),
      yes_or_no("balance", ValueKind::kSwitch, "False", group,
                "Every shard gets as many images as the others, and its share of each class."),
      seed(group, "Fixes the order of --shuffle.")};
}

// Of the commands in the table so far.
std::vector<Option> describe_options(const std::vector<CommandInfo>& commands) {
  std::vector<std::string> names;
  std::transform(commands.begin(), commands.end(), std::back_inserter(names),
                 [](const CommandInfo& command) { return command.name; });
  Option format = choice(
      "format", {"component", "kubeflow", "json-schema", "markdown", "sagemaker-metrics"},
      kReporting,
      "component: Azure ML. kubeflow: Kubeflow Pipelines. json-schema: every option, also for "
      "editors of a --config file. markdown: a table. sagemaker-metrics: the MetricDefinitions of "
      "train's epoch line.");
  format.default_text = "";
  format.required = true;
  Option command = choice("command", names, kReporting, "The command that is described.");
  command.value_name = "COMMAND";
  return {format, command,
          optional_path("image", "IMAGE", "", kReporting,
                        "The container image that a component names, with its registry and tag. "
                        "Without it: kiln, with this version as tag.")};
}

std::vector<CommandInfo> build_table() {
  std::vector<CommandInfo> commands = {
      {"train", "Train an untrained model on images into a ModelDirectory.",
       "--untrained-model-path DIR --train-data-path DIR --valid-data-path DIR "
       "--trained-model-path DIR [options]",
       train_options()},
      {"launch", "Start several processes that train one model together, on this host or several.",
       "--ranks N|auto [options] -- train [options of train]", launch_options()},
      {"init-model", "Write an untrained DenseNet or ResNet, or one with given weights.",
       "MODEL --untrained-model-path DIR [options]", init_model_options()},
      {"convert",
       "Turn an image folder, class folders, a COCO folder or an archive into an ImageDirectory.",
       "--input-path DIR --output-path DIR",
       {required_path("input-path", "DIR", "Images, class folders, a COCO folder or an archive."),
        required_path("output-path", "DIR", "Where the ImageDirectory is written.")}},
      {"pack",
       "Write labelled images as tar shards (WebDataset) that train without being unpacked.",
       "--input-path DIR --output-path DIR [options]", pack_options()},
      {"demo-data",
       "Draw labelled images of coloured shapes to try things with.",
       "--output-path DIR [options]",
       {required_path("output-path", "DIR", "Where the folders train and val are written."),
        integer("images", "600", 2, kMillion, "images", kDrawing,
                "Images to draw, training and validation together."),
        integer("classes", "3", 1, 10, "classes", kDrawing, "Kinds of shapes."),
        integer("size", "32", 8, 2048, "pixels", kDrawing, "Height and width of an image."),
        seed(kDrawing, "Fixes what is drawn.")}},
      {"bench loader",
       "Measure how fast images come from files into batches; prints one JSON object.",
       "--data PATH [options]", bench_loader_options()},
      {"bench collective",
       "Measure sums over several processes, beside MPI's own; prints one JSON object.",
       "--ranks N|auto [options]", bench_collective_options()},
      {"inspect", "Say what a directory or file holds; check its images.",
       "PATH [--json] [--check]", inspect_options()},
  };
  commands.push_back({"describe",
                      "Print a command's options as a component file, a schema or a table.",
                      "--format FORMAT [options]", describe_options(commands)});
  place_on_canvas(commands);
  return commands;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x == '_' ? '-' : x) == (y == '_' ? '-' : y); });
}

}  // namespace

const std::vector<CommandInfo>& command_table() {
  static const std::vector<CommandInfo> kTable = build_table();
  return kTable;
}

const CommandInfo* find_command(std::string_view name) {
  for (const CommandInfo& command : command_table()) {
    if (same_name(command.name, name)) return &command;
  }
  return nullptr;
}

const Option* find_option(const CommandInfo& command, std::string_view name) {
  for (const Option& option : command.options) {
    if (same_name(option.name, name)) return &option;
  }
  return nullptr;
}

std::string join_choices(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += choices[i];
  }
  return text;
}

std::string range_text(const Option& option) {
  const std::string bounds =
      std::to_string(option.minimum) + " to " + std::to_string(option.maximum);
  switch (option.kind) {
    case ValueKind::kInteger:
      return option.minimum == kLowest ? "any 64-bit whole number" : bounds;
    case ValueKind::kAutoOrInteger:
      return "auto, or " + bounds;
    case ValueKind::kNumber:
      return "greater than " + std::to_string(option.minimum) + ", up to " +
             std::to_string(option.maximum);
    case ValueKind::kChoiceOrNumber: {
      std::string text;
      for (const std::string& word : option.choices) text += word + ", ";
      return text + "or greater than " + std::to_string(option.minimum) + ", up to " +
             std::to_string(option.maximum);
    }
    case ValueKind::kAllowance:
      return "0% to 100%, or " + bounds;
    case ValueKind::kChoice:
    case ValueKind::kModelName:
      return join_choices(option.choices);
    case ValueKind::kBoolean:
    case ValueKind::kSwitch:
      return "True or False";
    case ValueKind::kPath:
    case ValueKind::kFlag:
      return "";
  }
  return "";
}

}  // namespace kiln
