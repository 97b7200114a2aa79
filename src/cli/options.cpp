#include "cli/options.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/text.h"
#include "base/url.h"
#include "cli/rows.h"
#include "model/catalogue.h"

namespace kiln {
namespace {

std::vector<CommandInfo> build_table() {
  std::vector<CommandInfo> commands = {
      train_command(),           score_command(),   serve_command(),     evaluate_command(),
      audit_command(),           export_command(),  launch_command(),    tune_command(),
      init_model_command(),      convert_command(), split_command(),     transform_init_command(),
      transform_apply_command(), pack_command(),    demo_data_command(), watch_command(),
      inspect_command(),         report_command(),  compare_command(),
  };
  std::vector<std::string> names;
  names.reserve(commands.size() + 1);
  for (const CommandInfo& command : commands) names.push_back(command.name);
  names.emplace_back(kFineTune);
  commands.push_back(describe_command(names));
  return commands;
}

// Options and their names in other trainers (docs/coming-from.md). If a name is in several rows,
// the first one whose option the command has is used.
constexpr std::pair<const char*, const char*> kSynonyms[] = {
    {"learning-rate", "lr lr0"},
    {"batch-size", "bs batch mini-batch-size"},
    {"loader-threads", "workers num-workers"},
    {"threads", "workers num-workers"},
    {"random-seed", "seed"},
    {"num-warmup-steps", "warmup-epochs lr-warmup-epochs"},
    {"print-freq", "log-interval"},
    {"patience", "early-stopping"},
    {"image-size", "img-size imgsz train-crop-size"},
    {"eval-crop", "val-crop-size"},
    {"eval-resize", "val-resize-size"},
    {"sync-batch-norm", "sync-bn"},
    {"accumulate", "grad-accum-steps"},
    {"precision", "amp"},
    {"ranks", "gpus world-size nproc-per-node"},
    {"model-name", "model arch"},
    {"trained-model-path", "model checkpoint out output output-dir"},
    {"weights", "pretrained initial-checkpoint"},
    {"data-path", "data data-dir source input"},
    {"train-data-path", "train-dir train"},
    {"valid-data-path", "val-dir valid val"},
    {"time-limit", "time"},
    {"optimizer", "opt"},
    {"lr-schedule", "sched"},
    {"label-smoothing", "smoothing"},
    {"ema", "model-ema"},
    {"min-confidence", "conf"},
    {"top-k", "topk"},
    {"output-path", "out output output-dir"},
    {"untrained-model-path", "out"},
    {"log-path", "log-dir logdir"},
};

constexpr std::size_t kWidth = 100;
constexpr std::size_t kHelpColumn = 34;

// Breaks `text` at spaces into lines of at most kWidth columns. The first line starts at `column`,
// further lines at `indent`.
std::string wrapped(const std::string& text, std::size_t column, std::size_t indent) {
  std::string out;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::size_t length = end - begin;
    if (column > indent && column + 1 + length > kWidth) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out.append(text, begin, length);
    column += length;
    begin = end + 1;
  }
  return out;
}

// In brackets; with `all` also what values it takes.
std::string facts(const Option& option, bool all) {
  std::vector<std::string> parts;
  if (option.required)
    parts.push_back(option.instead.empty() ? "required" : "required, or --" + option.instead);
  if (!option.default_text.empty()) parts.push_back("default " + option.default_text);
  if (all && !option.port_name.empty()) parts.push_back("also --" + option.port_name);
  if (all && option.repeatable) parts.emplace_back("may be repeated");
  const std::string range = range_text(option);
  // The choices are already in the left column.
  if (all && !range.empty() && option.kind != ValueKind::kChoice &&
      option.kind != ValueKind::kBoolean && option.kind != ValueKind::kSwitch) {
    parts.push_back((option.kind == ValueKind::kModelName ? "one of " : "range ") + range);
  }
  if (all && !option.unit.empty()) parts.push_back("unit: " + option.unit);
  if (parts.empty()) return "";
  return " [" + joined(parts, "; ") + "]";
}

std::string entry(const std::string& left, const std::string& help) {
  std::string line = "  " + left;
  if (line.size() + 2 > kHelpColumn) {
    line += '\n';
    line.append(kHelpColumn, ' ');
  } else {
    line.resize(kHelpColumn, ' ');
  }
  return line + wrapped(help, kHelpColumn, kHelpColumn) + "\n";
}

std::string entry(const Option& option, bool all) {
  return entry("--" + option.name + (option.value_name.empty() ? "" : " " + option.value_name),
               (all ? option.help : first_sentence(option.help) + ".") + facts(option, all));
}

std::vector<std::string> groups_of(const CommandInfo& command) {
  std::vector<std::string> groups;
  for (const Option& option : command.options)
    if (std::ranges::count(groups, option.group) == 0) groups.push_back(option.group);
  return groups;
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  const auto plain = [](char c) { return c == '_' ? '-' : c; };
  return std::ranges::equal(a, b, {}, plain, plain);
}

const std::vector<CommandInfo>& command_table() {
  static const std::vector<CommandInfo> kTable = build_table();
  return kTable;
}

const CommandInfo* find_command(std::string_view name) {
  return find_named(command_table(), name);
}

const Option* find_option(const CommandInfo& command, std::string_view name) {
  for (const Option& option : command.options)
    if (same_name(option.name, name) ||
        (!option.port_name.empty() && same_name(option.port_name, name)))
      return &option;
  return nullptr;
}

std::string foreign_option(const CommandInfo& command, std::string_view name) {
  for (const auto& [meant, synonyms] : kSynonyms) {
    std::istringstream words(synonyms);
    const Option* option = find_option(command, meant);
    for (std::string word; option != nullptr && words >> word;)
      if (same_name(word, name)) return option->name;
  }
  return "";
}

std::string meant_option(const CommandInfo& command, std::string_view name) {
  std::string foreign = foreign_option(command, name);
  if (!foreign.empty()) return foreign;
  std::string word(name);
  std::ranges::replace(word, '_', '-');
  std::vector<std::string> names;
  for (const Option& option : command.options) {
    names.push_back(option.name);
    if (!option.port_name.empty()) names.push_back(option.port_name);
  }
  return closest(word, names);
}

std::string line_to_type(const CommandInfo& command, const std::vector<std::string>& words) {
  std::vector<std::string> line;
  std::string network(kUsualNetwork);
  std::optional<std::size_t> published;  // where the URL of its weights goes
  for (std::size_t i = words.empty() ? 0 : 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool is_named = word.starts_with("--");
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(is_named ? 2 : 0, equals - (is_named ? 2 : 0));
    const Option* own = find_option(command, name);
    const Option* option = own ? own : find_option(command, foreign_option(command, name));
    if (option == nullptr || (!is_named && equals == word.size())) {
      line.push_back(without_secrets(word));
      continue;
    }
    const bool has_next = i + 1 < words.size() && !words[i + 1].starts_with("--");
    const bool is_switch = own == nullptr && (name == "pretrained" || name == "amp");
    std::string value = equals < word.size() ? word.substr(equals + 1) : "";
    if (is_switch) {
      value = name == "amp" ? "auto" : "URL";
      if (has_next && !closest(words[i + 1], {"True", "False"}).empty()) ++i;
    } else if (equals == word.size() && has_next && option->kind != ValueKind::kFlag) {
      value = words[++i];
    }
    if (option->kind == ValueKind::kModelName) {
      if (find_network(value) == nullptr) continue;  // that of another program
      network = value;
    }
    if (!option->positional) line.push_back("--" + option->name);
    if (name == "pretrained" && is_switch) published = line.size();
    if (!value.empty()) line.push_back(without_secrets(value));
  }
  if (published) line[*published] = weights_url(find_network(network)->published[0]);
  return "kiln " + command.name + (line.empty() ? "" : " ") + shell_words(line);
}

bool is_same_setting(const Option& option, const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (a.empty() || b.empty()) return false;
  try {
    return option.same_value(option, a, b);
  } catch (const Error&) {  // a text from another version of the program
    return false;
  }
}

std::vector<ChangedOption> changed_options(const OptionTexts& before, const OptionTexts& now) {
  std::vector<ChangedOption> changed;
  for (const Option& option : find_command("train")->options) {
    const auto text_in = [&](const OptionTexts& texts) {
      const auto found = std::ranges::find(texts, option.name, &OptionTexts::value_type::first);
      return found == texts.end() ? option.default_text : found->second;
    };
    const std::string old_text = text_in(before), new_text = text_in(now);
    if (is_same_setting(option, old_text, new_text)) continue;
    changed.push_back({option.name, old_text, new_text, option.effect.value_or(Effect::kResult)});
  }
  return changed;
}

std::string range_text(const Option& option) {
  const std::string least = std::to_string(option.minimum), most = std::to_string(option.maximum);
  const std::string bounds = least + " to " + most,
                    above = "greater than " + least + ", up to " + most;
  switch (option.kind) {
    case ValueKind::kInteger:
      return option.minimum == kLowest ? "any 64-bit integer" : bounds;
    case ValueKind::kAutoOrInteger:
      return "auto, or " + bounds;
    case ValueKind::kNumberFrom:
      return bounds;
    case ValueKind::kTrainingSize:
      return "auto, " + bounds + ", or two of them such as 128:224";
    case ValueKind::kCropSize:
      return "auto, larger, or " + bounds;
    case ValueKind::kNumber:
      return above;
    case ValueKind::kChoiceOrNumber:
      return joined(option.choices, ", ") + ", or " + above;
    case ValueKind::kCountedChoice:
      return joined(option.choices, ", ") + " or " + option.choices.back() + ":N, N from " + bounds;
    case ValueKind::kShare:
      return "greater than 0, up to 1 (or 100%)";
    case ValueKind::kAllowance:
      return "0% to 100%, or " + bounds;
    case ValueKind::kEvery:
      return bounds + " epochs, steps, s, min or h";
    case ValueKind::kAugment: {
      std::string text = "none, standard, strong, or a list of ";
      for (const std::string_view step : kAugmentStepNames)
        text += (step == kAugmentStepNames.front() ? "" : ",") + std::string(step);
      return text;
    }
    case ValueKind::kDuration:
      return bounds + " s, min or h";
    case ValueKind::kImageSize:
      return bounds + ", or two of them";
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

// `kiln --help` and `kiln COMMAND --help`: grouped, aligned, at most 100 columns.

std::string first_sentence(const std::string& help) {
  std::string sentence = help.substr(0, help.find(". "));
  if (sentence.ends_with('.')) sentence.pop_back();
  return sentence;
}

std::string command_help(const CommandInfo& command, bool all) {
  const auto& options = command.options;
  all = all || std::ranges::none_of(options, &Option::is_on_first_screen);
  const std::string usage = "Usage: kiln " + command.name;
  std::string text = wrapped(command.summary, 0, 0) + "\n\n" + usage + " " +
                     wrapped(command.usage, usage.size() + 1, usage.size() + 1) + "\n";
  for (const std::string& example : command.examples) text += "  " + example + "\n";
  for (const std::string& group : groups_of(command)) {
    std::string entries;
    for (const Option& option : options)
      if (option.group == group && (all || option.is_on_first_screen))
        entries += entry(option, all);
    if (!entries.empty()) text += "\n" + group + ":\n" + entries;
  }
  if (!all)
    text += formatted("\n`kiln %s --help all` shows all %zu options.\n", command.name.c_str(),
                      options.size());
  return text;
}

std::string help_on(const std::string& word) {
  const std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  if (name.empty()) return "";
  const std::string small = in_small_letters(name);
  for (const bool by_name : {true, false}) {
    std::string text;
    for (const CommandInfo& command : command_table()) {
      std::string entries;
      for (const Option& option : command.options)
        if (by_name ? &option == find_option(command, name) ||
                          option.name == foreign_option(command, name)
                    : in_small_letters(option.name + " " + option.help).find(small) != small.npos)
          entries += entry(option, by_name);
      if (!entries.empty())
        text += (text.empty() ? "" : "\n") + ("kiln " + command.name) + ":\n" + entries;
    }
    if (!text.empty()) return text;
  }
  return "";
}

std::string general_help() {
  std::string text =
      "Kiln trains image classifiers on folders of labeled photos, and scores new photos with "
      "them.\n\n"
      "Usage: kiln COMMAND [options]\n"
      "  kiln train photos               photos has a folder for each class\n"
      "  kiln score photo.jpg            by the model that was trained last in this folder\n\n"
      "Commands:\n";
  for (const CommandInfo& command : command_table()) text += entry(command.name, command.summary);
  return text + "\n" + entry("COMMAND --help", "Show the options of a command.") +
         entry("help WORD", "Find a command, an option, or a word in their descriptions.") +
         entry("--version", "Show the versions of kiln and its libraries.");
}

}  // namespace kiln
