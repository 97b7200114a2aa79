#include "cli/option_rows.h"

#include <string_view>
#include <utility>

#include "base/error.h"
#include "model/catalogue.h"

namespace kiln {

Option required_path(std::string name, std::string value_name, std::string help) {
  return {.name = std::move(name),
          .value_name = std::move(value_name),
          .default_text = "",
          .unit = "",
          .group = kPaths,
          .help = std::move(help),
          .kind = ValueKind::kPath,
          .required = true};
}

Option positional_path(std::string name, std::string value_name, std::string help) {
  Option path = required_path(std::move(name), std::move(value_name), std::move(help));
  path.positional = true;
  return path;
}

Option optional_path(std::string name, std::string value_name, std::string default_text,
                     std::string group, std::string help) {
  Option path = required_path(std::move(name), std::move(value_name), std::move(help));
  path.default_text = std::move(default_text);
  path.group = std::move(group);
  path.required = false;
  return path;
}

Option integer(std::string name, std::string default_text, std::int64_t minimum,
               std::int64_t maximum, std::string unit, std::string group, std::string help) {
  const bool automatic = default_text == "auto";
  return {.name = std::move(name),
          .value_name = automatic ? "auto|N" : "N",
          .default_text = std::move(default_text),
          .unit = std::move(unit),
          .group = std::move(group),
          .help = std::move(help),
          .kind = automatic ? ValueKind::kAutoOrInteger : ValueKind::kInteger,
          .minimum = minimum,
          .maximum = maximum};
}

Option number(std::string name, std::string default_text, std::int64_t maximum, std::string group,
              std::string help) {
  return {.name = std::move(name),
          .value_name = "X",
          .default_text = std::move(default_text),
          .unit = "",
          .group = std::move(group),
          .help = std::move(help),
          .kind = ValueKind::kNumber,
          .minimum = 0,
          .maximum = maximum};
}

Option number_from(std::string name, std::string default_text, std::int64_t minimum,
                   std::int64_t maximum, std::string unit, std::string group, std::string help) {
  Option option = integer(std::move(name), std::move(default_text), minimum, maximum,
                          std::move(unit), std::move(group), std::move(help));
  option.value_name = "X";
  option.kind = ValueKind::kNumberFrom;
  return option;
}

Option ranks(bool required, std::string group, std::string help) {
  return {.name = "ranks",
          .value_name = "N|auto",
          .default_text = "",
          .unit = "processes",
          .group = std::move(group),
          .help = std::move(help),
          .kind = ValueKind::kAutoOrInteger,
          .required = required,
          .minimum = 1,
          .maximum = 4096};
}

Option choice(std::string name, std::vector<std::string> choices, std::string group,
              std::string help) {
  const std::string first = choices.front();
  std::string value_name = first;
  for (std::size_t i = 1; i < choices.size(); ++i) value_name += "|" + choices[i];
  return {.name = std::move(name),
          .value_name = std::move(value_name),
          .default_text = first,
          .unit = "",
          .group = std::move(group),
          .help = std::move(help),
          .kind = ValueKind::kChoice,
          .choices = std::move(choices)};
}

Option precision(std::string group, std::string help) {
  return choice("precision", {"fp32", "tf32", "bf16", "fp16", "auto"}, std::move(group),
                std::move(help));
}

Option augment(std::string default_text, std::string help) {
  return {.name = "augment",
          .value_name = "none|flip|standard|strong|LIST",
          .default_text = std::move(default_text),
          .unit = "",
          .group = kImages,
          .help = std::move(help),
          .kind = ValueKind::kAugment};
}

Option network_name(std::string help) {
  return {.name = "model-name",
          .value_name = "MODEL",
          .default_text = "",
          .unit = "",
          .group = kModel,
          .help = std::move(help),
          .kind = ValueKind::kModelName,
          .choices = network_names()};
}

Option max_bad_images(std::string help) {
  return {.name = "max-bad-images",
          .value_name = "N|N%",
          .default_text = "1%",
          .unit = "images, or percent of a dataset",
          .group = kImages,
          .help = std::move(help),
          .kind = ValueKind::kAllowance,
          .minimum = 0,
          .maximum = 1000 * kMillion};
}

Option read_threads() {
  return integer("read-threads", "auto", 1, 1024, "threads", kMachine,
                 "Threads that read ahead of decoding; they wait for storage and use almost no "
                 "CPU. More of them help if each read is slow, as from an object store. auto: 16.");
}

Option seed(std::string group, std::string help) {
  return integer("random-seed", "1", kLowest, kHighest, "", std::move(group), std::move(help));
}

Option yes_or_no(std::string name, ValueKind kind, std::string default_text, std::string group,
                 std::string help) {
  std::string value_name;
  if (kind == ValueKind::kBoolean) value_name = "True|False";
  if (kind == ValueKind::kSwitch) value_name = "[True|False]";
  return {.name = std::move(name),
          .value_name = std::move(value_name),
          .default_text = std::move(default_text),
          .unit = "",
          .group = std::move(group),
          .help = std::move(help),
          .kind = kind};
}

// Which options appear on a designer's canvas, and in what role. The designer's own component has
// seven parameters. A form with more than 25 would be too long to read, so the other options are
// left to the --config file.

namespace {

struct Place {
  const char* component;  // a command, or a variant (component_table.cpp)
  Canvas canvas;
  std::vector<const char*> options;
};

const std::vector<Place>& places() {
  static const std::vector<Place> kPlaces = {
      {"train", Canvas::kModelIn, {"untrained-model-path"}},
      {"train", Canvas::kDataIn, {"train-data-path", "valid-data-path"}},
      {"train", Canvas::kModelOut, {"trained-model-path"}},
      {"train", Canvas::kCheckpoints, {"checkpoint-path"}},
      {"train", Canvas::kFileIn, {"config"}},
      {"train", Canvas::kFolderIn, {"transform-path"}},
      {"train", Canvas::kRanksOfHost, {"ranks"}},
      {"train", Canvas::kKubeflowRun, {"kfp-executor-input"}},
      {"train",
       Canvas::kParameter,
       {"epochs", "batch-size", "num-warmup-steps", "learning-rate", "random-seed", "patience",
        "print-freq"}},
      {"train",
       Canvas::kParameter,
       {"image-size", "augment", "normalization", "on-bad-image", "max-bad-images", "save",
        "lr-scaling", "accumulate", "sync-batch-norm"}},
      {"fine-tune", Canvas::kDataIn, {"data-path"}},
      {"fine-tune", Canvas::kModelFileIn, {"weights"}},
      {"fine-tune", Canvas::kModelOut, {"trained-model-path"}},
      {"fine-tune", Canvas::kFileIn, {"labels", "config"}},
      {"fine-tune", Canvas::kRanksOfHost, {"ranks"}},
      {"fine-tune", Canvas::kKubeflowRun, {"kfp-executor-input"}},
      {"fine-tune",
       Canvas::kParameter,
       {"model-name", "valid-fraction", "time-limit", "random-seed", "class-weights", "best-by",
        "on-bad-image", "max-bad-images"}},
      {"score", Canvas::kModelIn, {"trained-model-path"}},
      {"score", Canvas::kDataIn, {"data-path"}},
      {"score", Canvas::kDataOut, {"scored-dataset"}},
      {"score", Canvas::kParameter, {"max-bad-images", "precision", "batch-size"}},
      {"evaluate", Canvas::kModelIn, {"trained-model-path"}},
      {"evaluate", Canvas::kDataIn, {"data-path"}},
      {"evaluate", Canvas::kDataOut, {"output-path"}},
      {"evaluate", Canvas::kParameter, {"top-k", "max-bad-images", "precision", "batch-size"}},
      {"init-model", Canvas::kModelOut, {"untrained-model-path"}},
      {"init-model", Canvas::kFileIn, {"weights"}},
      {"init-model",
       Canvas::kParameter,
       {"model-name", "zero-init-residual", "memory-efficient", "random-seed"}},
      {"convert", Canvas::kDataIn, {"input-path"}},
      {"convert", Canvas::kDataOut, {"output-path"}},
      {"split", Canvas::kDataIn, {"src-path"}},
      {"split", Canvas::kDataOut, {"tgt-train-path", "tgt-test-path"}},
      {"split",
       Canvas::kParameter,
       {"fraction", "stratify", "keep-duplicates-together", "random-seed"}},
      {"transform init", Canvas::kDataOut, {"output-path"}},
      {"transform init",
       Canvas::kParameter,
       {"resize",
        "size",
        "center-crop",
        "crop-size",
        "pad",
        "padding",
        "color-jitter",
        "random-resized-crop",
        "random-resized-crop-size",
        "random-crop",
        "random-crop-size",
        "random-horizontal-flip",
        "random-vertical-flip",
        "random-rotation",
        "random-rotation-degrees",
        "random-affine",
        "random-affine-degrees",
        "random-perspective",
        "grayscale",
        "random-grayscale"}},
      {"transform apply", Canvas::kDataIn, {"input-image-transform-path", "input-image-dir-path"}},
      {"transform apply", Canvas::kDataOut, {"output-path"}},
      {"transform apply", Canvas::kParameter, {"mode", "random-seed"}},
      {"pack", Canvas::kDataIn, {"input-path"}},
      {"pack", Canvas::kDataOut, {"output-path"}},
      {"pack", Canvas::kFileIn, {"classes"}},
      {"pack",
       Canvas::kParameter,
       {"format", "first-label", "shard-mb", "short-side", "quality", "shuffle", "even-shards",
        "balance-classes", "random-seed"}},
  };
  return kPlaces;
}

}  // namespace

void place_on_canvas(std::string_view component, CommandInfo& command) {
  for (const Place& place : places())
    for (const char* name : place.options)
      if (place.component == component) option_named(command, name).canvas = place.canvas;
}

Option& option_named(CommandInfo& command, std::string_view name) {
  for (Option& option : command.options)
    if (option.name == name) return option;
  throw InternalError("The table of options: " + command.name + " has no '" + std::string(name) +
                      "'");
}

}  // namespace kiln
