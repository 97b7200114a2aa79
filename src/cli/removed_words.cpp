// Commands, options and values that earlier builds of 0.1 had. A command line, a --config file or
// a checkpoint with one of them is answered with what became of it. The table goes with 0.2.
#include <algorithm>

#include "base/text.h"
#include "cli/rows.h"

namespace kiln {
namespace {

constexpr RemovedWord kRemovedWords[] = {
    {"watch", "", "", "", "report.html in the --log-path loads itself again while a run goes on"},
    {"inspect", "model-name,batch-size,epochs,device,precision,image-size", "", "",
     "`kiln train` forecasts its run after the first steps"},
    {"inspect", "augment,output-path,random-seed", "", "", "there is no page of augmented images"},
    {"train", "zero-init-residual", "", "false,0",
     "`kiln init-model` has the option, and --untrained-model-path takes what it writes"},
    {"train", "gradient-dtype", "", "fp32",
     "gradients are summed in float32: a larger --accumulate sums them less often"},
    {"train", "mlflow-log-model", "", "false,true,0,1",
     "docs/platforms.md has the lines that register a model with MLflow"},
    {"train", "image-size", "#:#", "", "images have one size: give the last one"},
    {"train", "optimizer", "lars", "", "use sgd, with --num-warmup-steps for large batches"},
    {"describe", "command,image", "", "", "all commands are described at once"},
    {"describe", "format", "man", "", "the manual page is share/man/man1/kiln.1 of a release"},
    {"describe", "format", "bash", "",
     "bash's completions are share/bash-completion/completions/kiln of a release"},
    {"describe", "format", "zsh", "",
     "zsh's completions are share/zsh/site-functions/_kiln of a release"},
    {"describe", "format", "fish", "",
     "fish's completions are share/fish/vendor_completions.d/kiln.fish of a release"},
    {"describe", "format", "json-schema", "",
     "the schema of --config files is share/kiln/train.schema.json of a release"},
    {"describe", "format", "component", "",
     "components are component.yaml and the files of components/ in the source"},
    {"describe", "format", "kubeflow", "",
     "components are the files of components/kubeflow/ in the source"},
    {"describe", "format", "markdown", "", "the tables are in docs/options.md"},
};

// In small letters, with # for each number.
std::string shape_of(std::string_view text) {
  std::string shape;
  for (const char c : in_small_letters(text)) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit || !shape.ends_with('#')) shape += is_digit ? '#' : c;
  }
  return shape;
}

bool has_item(std::string_view list, std::string_view wanted) {
  return std::ranges::any_of(items_of(list),
                             [&](const std::string& item) { return same_name(item, wanted); });
}

}  // namespace

const RemovedWord* find_removed(std::string_view command, std::string_view option,
                                std::string_view value) {
  for (const RemovedWord& row : kRemovedWords)
    if (has_item(row.commands, command) &&
        (row.options.empty() ? option.empty() : has_item(row.options, option)) &&
        (row.value.empty() || row.value == shape_of(value)))
      return &row;
  return nullptr;
}

std::vector<std::string> removed_settings(const OptionTexts& options) {
  std::vector<std::string> settings;
  for (const auto& [name, text] : options)
    if (const RemovedWord* row = find_removed("train", name, text);
        row != nullptr && !has_item(row->usual, in_small_letters(text)))
      settings.push_back("--" + name + " " + excerpt(text) + " " + row->fate());
  return settings;
}

}  // namespace kiln
