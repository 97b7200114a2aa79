// The components offered in a pipeline designer: every command that has an output on the canvas,
// and variants of commands with a different choice of options.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/option_rows.h"

namespace kiln {
namespace {

// The default and help of an option in a variant. If a text is empty, that of the command is kept.
struct Wording {
  const char *option, *default_text, *help;
};

struct OwnComponent {
  const char *name, *command, *summary;
  std::vector<Wording> wordings;
};

// Options that --auto decides are not shown: a form passes a value for each option that it shows,
// and a given value turns --auto off.
const std::vector<OwnComponent>& own_components() {
  static const std::vector<OwnComponent> kOwn = {
      {"fine-tune",
       "train",
       "Fine-tune pretrained weights on one folder of labeled images, and write a ModelDirectory.",
       {{"data-path", "",
         "Labeled images: an ImageDirectory, class folders, a COCO folder, an archive or a folder "
         "of shards. They are split into training and validation images; duplicates stay on one "
         "side."},
        {"weights", "",
         "Initial weights: a torchvision or timm state dict (.pth or .safetensors), or SageMaker's "
         "model.tar.gz. Matching tensors are loaded; other classes get a new last layer."},
        {"model-name", "", "Network architecture of the weights."},
        {"time-limit", "30min",
         "Finish within this time (such as 30min; units s, min, h), with the best model so far."},
        {"labels", "",
         "CSV file with columns path and label that corrects labels before the images are split, "
         "such as doubtful.csv from `kiln audit`."}}},
  };
  return kOwn;
}

bool has_output(const CommandInfo& command) {
  return std::any_of(command.options.begin(), command.options.end(), [](const Option& option) {
    return option.canvas == Canvas::kDataOut || option.canvas == Canvas::kModelOut;
  });
}

ComponentInfo component_of(const OwnComponent& own) {
  CommandInfo command = *find_command(own.command);
  for (Option& option : command.options) option.canvas = Canvas::kHidden;
  place_on_canvas(own.name, command);
  for (const Wording& wording : own.wordings) {
    Option& option = option_named(command, wording.option);
    if (*wording.default_text != '\0') option.default_text = wording.default_text;
    if (*wording.help != '\0') option.help = wording.help;
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
