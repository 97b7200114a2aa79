#include "cli/command_line.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/platform/launch_environment.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/paths.h"
#include "cli/rows.h"

namespace kiln {
namespace {

using Words = std::vector<std::string>;

Words command_names() {
  return list_from(command_table(), &CommandInfo::name);
}

Invocation refusal(const std::string& message) {
  Invocation invocation;
  invocation.problems.add(Error(ErrorCode::kParameterParsing, message));
  return invocation;
}

Invocation help(std::string text, bool asked_for = true) {
  return {.command = HelpRequest{std::move(text), asked_for}};
}

bool is_help(const Invocation& invocation) {
  return std::holds_alternative<HelpRequest>(invocation.command);
}

bool asks_for_help(const std::string& word) {
  return word == "help" || word == "--help" || word == "-h";
}

// The command name at the beginning of `words`: one word, or two if the table has such a command.
std::string name_of(const Words& words) {
  if (words.size() < 2 || find_command(words[0] + " " + words[1]) == nullptr) return words[0];
  return words[0] + " " + words[1];
}

// Commands that other trainers have but kiln does not, each with the one to use instead; without
// dashes.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kMissingCommands = {{
    {"predict", "score"},
    {"infer", "score"},
    {"inference", "score"},
    {"classify", "score"},
    {"test", "evaluate"},
    {"eval", "evaluate"},
    {"val", "evaluate"},
    {"validate", "evaluate"},
    {"fit", "train"},
    {"finetune", "train"},
}};

// The command that `name` is, or is called elsewhere: fine-tune. nullptr: none.
const CommandInfo* meant_command(std::string name) {
  if (const CommandInfo* command = find_command(name)) return command;
  std::erase_if(name, [](char c) { return c == '-' || c == '_'; });
  for (const auto& [word, instead] : kMissingCommands)
    if (name == word) return find_command(instead);
  return nullptr;
}

// `words` start with `name`, which is not a command.
Invocation refuse_command(const std::string& name, Words words) {
  const std::string text = "'" + excerpt(name) + "' is not a command of kiln";
  if (name == "man" || name == "completion" || name == "completions") {
    const RemovedWord* file =
        find_removed("describe", "format", name == "man" ? name : words.back());
    if (file == nullptr) file = find_removed("describe", "format", "bash");
    return refusal(text + ": " + std::string(file->instead) + ".");
  }
  if (const RemovedWord* row = find_removed(name, ""))
    return refusal(text + ": " + std::string(row->instead) + ".");
  // `yolo classify train`: the last one is the command.
  while (words.size() > 1 && (words[0] == "yolo" || words[0] == "classify") &&
         (words[1] == "classify" || meant_command(words[1]) != nullptr))
    words.erase(words.begin());
  if (const CommandInfo* command = meant_command(words.front()))
    return refusal(text + ": " + line_to_type(*command, words));
  if (is_there(name))
    return refusal(text + ", but there is such a path: type `kiln train " + shell_word(name) +
                   "`, or `kiln score " + shell_word(name) + "`.");
  const std::string guess = did_you_mean(name, command_names());
  return refusal(
      text + "." +
      (guess.empty() ? " The commands are " + join_choices(command_names()) + "." : guess));
}

// `kiln help WORD…`. `all`: not only the first screen of a command.
Invocation help_about(Words words) {
  const bool all = words.size() > 1 && words.back() == "all";
  if (all) words.pop_back();
  const std::string text = joined(words, " ");
  const CommandInfo* command = find_command(name_of(words));
  std::string found = command == nullptr ? help_on(text) : "";
  if (command == nullptr && (found.empty() || words.size() == 1))
    if (const CommandInfo* meant = meant_command(text)) command = meant;
  if (command != nullptr) return help(command_help(*command, all));
  if (!found.empty()) return help(std::move(found));
  const std::string guess = did_you_mean(text, command_names());
  return refusal("'" + excerpt(text) +
                 "' was not found in the names and descriptions of commands and options." +
                 (guess.empty() ? " `kiln help` lists the commands." : guess));
}

bool asks_for_version(const std::string& word) {
  return word == "version" || word == "--version" || word == "-V";
}

// Whether the log path is the one that was asked for, and not the default, in whose place it has
// none that is valid.
bool is_asked(const Settings& settings, const std::string& log_path) {
  return settings.is_given("log-path") && settings.text("log-path") == log_path;
}

// `words` start with the command's name.
Invocation parse_command(const CommandInfo& command, const Words& words,
                         const BucketFolders& copies) {
  Given given = parse_arguments(command, words, copies);
  if (given.help) {
    Invocation shown = help(command_help(command, !given.help_word.empty()));
    if (!given.help_word.empty() && given.help_word != "all")
      shown.problems = refusal("--help may be followed only by 'all', not by '" +
                               excerpt(given.help_word) + "'.")
                           .problems;
    return shown;
  }
  read_config_file(given);
  Invocation invocation{.command = command.bind(given)};
  if (!command.instead_of_ranks.empty() && num_launched() > 1 && !given.has("part"))
    given.fault(0,
                "A launcher started " + std::to_string(num_launched()) + " processes. " +
                    command.instead_of_ranks,
                ErrorCode::kUserError);
  if (const GivenValue* path = given.find("cache-path")) {
    invocation.cache_path = path->text;
    if (invocation.cache_path.empty()) given.refuse("cache-path", "is empty, but must be a path.");
  }
  invocation.problems = given.problems();
  invocation.buckets = given.buckets;
  if (const auto* launch = std::get_if<LaunchConfig>(&invocation.command))
    invocation.log_path = launch->log_path;
  // One inside the output is not written to, which would make that an invalid ModelDirectory.
  if (const auto* train = std::get_if<TrainConfig>(&invocation.command);
      train != nullptr && !lies_inside(train->output.log_path, train->output.trained_model_path))
    invocation.log_path = train->output.log_path;
  invocation.is_log_path_asked =
      !invocation.log_path.empty() && is_asked(given.settings(), invocation.log_path);
  for (const Option& option : command.options) {
    const bool is_output = option.name == "output-path" || option.name == "log-path" ||
                           (option.name == "trained-model-path" && command.name == "train");
    const GivenValue* value = given.find(option.name);
    if (is_output && !option.default_text.empty() &&
        (value == nullptr || value->position == kMissingPosition))
      invocation.unasked_outputs.push_back(option.default_text);
  }
  return invocation;
}

// A job that does not begin with `train`.
Problems refuse_job(const CommandInfo& command, const Words& job) {
  if (command.name == "tune")
    return refusal("`kiln tune` needs a job to try: end the command line with `-- train …`.")
        .problems;
  const CommandInfo* other = job.empty() ? nullptr : find_command(job.front());
  const bool has_hint = other != nullptr && !other->instead_of_ranks.empty();
  return refusal("`kiln launch` starts training: end the command line with `-- train …`." +
                 (has_hint ? " " + other->instead_of_ranks : ""))
      .problems;
}

// For `kiln launch` and `kiln tune`: the job after `--` is a command line of `kiln train`, whose
// faults are reported together with those before it.
Invocation parse_with_job(const CommandInfo& command, const Words& words,
                          const BucketFolders& copies) {
  const auto dashes = std::ranges::find(words, "--");
  Invocation whole = parse_command(command, {words.begin(), dashes}, copies);
  if (is_help(whole)) return whole;
  Words inner(dashes == words.end() ? dashes : dashes + 1, words.end());
  if (inner.empty() || inner.front() != "train") {
    whole.problems = merged({whole.problems, refuse_job(command, inner)});
    return whole;
  }
  auto* launch = std::get_if<LaunchConfig>(&whole.command);
  if (launch != nullptr && is_asked(launch->settings, launch->log_path))
    inner.insert(std::ranges::find(inner, "--"), {"--log-path", launch->log_path});
  Invocation job = parse_command(*find_command("train"), inner, copies);
  if (is_help(job)) return whole.problems.empty() ? job : whole;
  auto& train = std::get<TrainConfig>(job.command);
  Problems together;
  if (launch == nullptr) {
    auto& tune = std::get<TuneConfig>(whole.command);
    together = overlaps_with_job("output-path", tune.output_path, train);
    tune.train = std::move(train);
    whole.buckets = job.buckets;  // those of launch are its ranks'
    whole.cache_path = job.cache_path;
  } else {
    if (train.ranks.launch)
      together.add(
          Error(ErrorCode::kParameterParsing,
                "--ranks is given to both launch and train: give it once, before the `--`."));
    launch->rank_arguments = std::move(inner);
    launch->device = train.ranks.device;
    launch->log_path = train.output.log_path;
    launch->settings = std::move(train.settings);
    whole.log_path = job.log_path;
    whole.is_log_path_asked = job.is_log_path_asked;
  }
  whole.problems = merged({whole.problems, job.problems, together});
  return whole;
}

}  // namespace

Invocation parse_command_line(const std::vector<std::string>& arguments,
                              const BucketFolders& copies) {
  if (arguments.empty()) return help(general_help(), /*asked_for=*/false);
  const std::string& first = arguments.front();
  if (asks_for_version(first) || (first == "help" && asks_for_version(arguments.back())))
    return {.command = VersionRequest{}};
  if (asks_for_help(first)) {
    if (arguments.size() == 1 || asks_for_help(arguments[1])) return help(general_help());
    return help_about({arguments.begin() + 1, arguments.end()});
  }
  if (first.starts_with('-'))
    return refusal("'" + first + "' precedes the command: write `kiln COMMAND " + first +
                   " …` with one of " + join_choices(command_names()) + ".");
  const std::string name = name_of(arguments);
  const CommandInfo* command = find_command(name);
  if (command == nullptr) return refuse_command(name, arguments);
  const bool has_job = command->name == "launch" || command->name == "tune";
  Invocation invocation = has_job ? parse_with_job(*command, arguments, copies)
                                  : parse_command(*command, arguments, copies);
  invocation.arguments = arguments;
  return invocation;
}

}  // namespace kiln
