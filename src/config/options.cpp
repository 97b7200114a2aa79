#include "config/options.h"

#include <algorithm>
#include <iterator>

#include "config/option_kinds.h"
#include "config/train_options.h"
#include "model/catalogue.h"

namespace kiln {
namespace {

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
      .choices = network_names(),
  };
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
  return {positional_path("path", "PATH", "What to look at; also accepted without its flag."),
          yes_or_no("json", ValueKind::kFlag, "", kReporting, "Print one JSON object, no table."),
          yes_or_no("check", ValueKind::kFlag, "", kReporting,
                    "Decode every image and list the bad ones; exit status 1 if there are any.")};
}

std::vector<Option> report_options() {
  Option log_path = required_path("log-path", "DIR",
                                  "The --log-path of a run, or its metrics.jsonl; also accepted "
                                  "without its flag.");
  log_path.positional = true;
  return {log_path, optional_path("output-path", "FILE", "", kPaths,
                                  "Where the page is written. Without it: report.html beside "
                                  "metrics.jsonl.")};
}

std::vector<Option> compare_options() {
  Option log_path = required_path("log-path", "RUN",
                                  "The --log-path of a run, once for each; also accepted without "
                                  "its flag.");
  log_path.positional = true;
  log_path.repeatable = true;
  return {log_path, optional_path("output-path", "FILE", "compare.html", kPaths,
                                  "Where the page with all of them is written.")};
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
              "Threads that make batches. auto: one for each processor."),
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
      {"watch",
       "Follow a running job from another terminal, by what it writes in its --log-path.",
       "LOG-PATH [--plain]",
       {positional_path("log-path", "DIR",
                        "The --log-path of the run; also accepted without its flag."),
        plain()}},
      {"inspect", "Say what a directory or file holds; check its images.",
       "PATH [--json] [--check]", inspect_options()},
      {"report", "Write the page about a training run, finished or not.", "LOG-PATH [options]",
       report_options()},
      {"compare", "Show several training runs beside each other: a table, and a page.",
       "RUN RUN... [options]", compare_options()},
  };
  commands.push_back({"describe",
                      "Print a command's options as a component file, a schema or a table.",
                      "--format FORMAT [options]", describe_options(commands)});
  place_on_canvas(commands);
  return commands;
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x == '_' ? '-' : x) == (y == '_' ? '-' : y); });
}

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
