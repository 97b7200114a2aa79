// The components offered in a pipeline designer: every command that has an output on the canvas,
// and variants of commands with a different choice of options.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/command_rows.h"

namespace kiln {
namespace {

// An option on a variant's canvas. If its default or help is empty, that of the command is kept.
struct ShownOption {
  const char* name;
  Canvas canvas;
  const char* default_text = "";
  const char* help = "";
};

struct OwnComponent {
  const char *name, *command, *summary;
  std::vector<ShownOption> options;
};

// Options that --auto decides are not shown: a form passes a value for each option that it shows,
// and a given value turns --auto off.
const std::vector<OwnComponent>& own_components() {
  static const std::vector<OwnComponent> kOwn = {
      {"fine-tune",
       "train",
       "Fine-tune pretrained weights on one folder of labeled images, and write a ModelDirectory.",
       {{"data-path", Canvas::kDataIn, "",
         "Labeled images: an ImageDirectory, class folders, a COCO folder, an archive or a folder "
         "of shards. They are split into training and validation images; duplicates stay on one "
         "side."},
        {"weights", Canvas::kModelFileIn, "",
         "Initial weights: a torchvision or timm state dict (.pth or .safetensors), or SageMaker's "
         "model.tar.gz. Matching tensors are loaded; other classes get a new last layer."},
        {"trained-model-path", Canvas::kModelOut},
        {"labels", Canvas::kFileIn, "",
         "CSV file with columns path and label that corrects labels before the images are split, "
         "such as doubtful.csv from `kiln audit`."},
        {"config", Canvas::kFileIn},
        {"ranks", Canvas::kRanksOfHost},
        {"kfp-executor-input", Canvas::kKubeflowRun},
        {"model-name", Canvas::kParameter, "", "Network architecture of the weights."},
        {"valid-fraction", Canvas::kParameter},
        {"time-limit", Canvas::kParameter, "30min",
         "Finish within this time (such as 30min; units s, min, h), with the best model so far."},
        {"random-seed", Canvas::kParameter},
        {"class-weights", Canvas::kParameter},
        {"best-by", Canvas::kParameter},
        {"on-bad-image", Canvas::kParameter},
        {"max-bad-images", Canvas::kParameter}}},
  };
  return kOwn;
}

Option& option_named(CommandInfo& command, std::string_view name) {
  for (Option& option : command.options)
    if (option.name == name) return option;
  throw InternalError("The table of options: " + command.name + " has no '" + std::string(name) +
                      "'");
}

bool has_output(const CommandInfo& command) {
  return std::any_of(command.options.begin(), command.options.end(), [](const Option& option) {
    return option.canvas == Canvas::kDataOut || option.canvas == Canvas::kModelOut;
  });
}

ComponentInfo component_of(const OwnComponent& own) {
  CommandInfo command = *find_command(own.command);
  for (Option& option : command.options) option.canvas = Canvas::kHidden;
  for (const ShownOption& shown : own.options) {
    Option& option = option_named(command, shown.name);
    option.canvas = shown.canvas;
    if (*shown.default_text != '\0') option.default_text = shown.default_text;
    if (*shown.help != '\0') option.help = shown.help;
  }
  // Ports come before parameters, as in the commands' own tables.
  std::stable_partition(command.options.begin(), command.options.end(),
                        [](const Option& option) { return option.canvas != Canvas::kParameter; });
  return {own.name, own.summary, std::move(command)};
}

}  // namespace

std::vector<std::string> own_component_names() {
  std::vector<std::string> names;
  for (const OwnComponent& own : own_components()) names.emplace_back(own.name);
  return names;
}

const std::vector<ComponentInfo>& component_table() {
  static const std::vector<ComponentInfo> kTable = [] {
    std::vector<ComponentInfo> table;
    for (const CommandInfo& command : command_table())
      if (has_output(command)) table.push_back({command.name, command.summary, command});
    for (const OwnComponent& own : own_components()) table.push_back(component_of(own));
    return table;
  }();
  return kTable;
}

const ComponentInfo* find_component(std::string_view name) {
  for (const ComponentInfo& component : component_table())
    if (same_name(component.name, name)) return &component;
  return nullptr;
}

}  // namespace kiln
