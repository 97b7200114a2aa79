#include "cli/command_line.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/platform/launch_environment.h"
#include "base/text.h"
#include "cli/binder.h"
#include "cli/command_rows.h"

namespace kiln {
namespace {

using Words = std::vector<std::string>;

Words command_names() {
  Words names;
  for (const CommandInfo& command : command_table()) names.push_back(command.name);
  return names;
}

Invocation refusal(const std::string& message) {
  Invocation invocation;
  invocation.problems.add(Error(ErrorCode::kParameterParsing, message));
  return invocation;
}

Invocation help(std::string text, bool asked_for = true) {
  return {.command = HelpRequest{std::move(text), asked_for}, .problems = {}, .log_path = {}};
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

// Commands that other trainers have but kiln does not, each with a sentence that names the command
// of kiln to use instead.
struct MissingCommand {
  std::string_view word, instead;
};
constexpr std::string_view kScoring = "`kiln score` classifies images with a trained model.";
constexpr std::string_view kEvaluating =
    "`kiln evaluate` measures a trained model on labeled images; `kiln train` validates after "
    "every epoch.";
constexpr std::array<MissingCommand, 7> kMissingCommands = {{
    {"predict", kScoring},
    {"infer", kScoring},
    {"inference", kScoring},
    {"classify", kScoring},
    {"test", kEvaluating},
    {"eval", kEvaluating},
    {"validate", kEvaluating},
}};

Invocation refuse_command(const std::string& name) {
  for (const auto& [word, instead] : kMissingCommands)
    if (name == word)
      return refusal("'" + name + "' is not a command of kiln. " + std::string(instead));
  const std::string guess = did_you_mean(name, command_names());
  return refusal(
      "'" + name + "' is not a command of kiln." +
      (guess.empty() ? " The commands are " + join_choices(command_names()) + "." : guess));
}

// The log folder that must receive error_info.json if the command fails.
struct OwedLogPath {
  std::string path;  // empty: none
  bool given = false;
};

// An invalid --log-path is replaced by the default. A log folder inside the output is not written
// to, because that would make the output an invalid ModelDirectory.
OwedLogPath owed_log_path(const CommandInfo& command, const Command& config) {
  const auto* train = std::get_if<TrainConfig>(&config);
  const auto* launch = std::get_if<LaunchConfig>(&config);
  if (train == nullptr && launch == nullptr) return {};
  const std::string& path = train != nullptr ? train->output.log_path : launch->log_path;
  const bool given = train != nullptr ? train->output.log_path_given : launch->log_path_given;
  OwedLogPath owed{path, given && !path.empty()};
  if (path.empty()) owed.path = find_option(command, "log-path")->default_text;
  if (train != nullptr && lies_inside(owed.path, train->output.trained_model_path)) return {};
  return owed;
}

// `words` start with the command's name.
Invocation parse_command(const CommandInfo& command, const Words& words) {
  RawArguments raw = parse_arguments(command, words);
  if (raw.help) return help(command_help(command, raw.help_all));
  if (const RawValue* file = raw.find("config"); file != nullptr && !file->text.empty())
    read_config_file(command, std::string(file->text), raw);
  Binder binder(command, raw);
  Command config = command.bind(binder);
  if (!command.instead_of_ranks.empty() && num_launched() > 1 && !binder.given("part"))
    raw.faults.add(
        0, Error(ErrorCode::kUserError, "A launcher started " + std::to_string(num_launched()) +
                                            " processes. " + command.instead_of_ranks));
  OwedLogPath owed = owed_log_path(command, config);
  return {std::move(config), raw.faults.problems(), std::move(owed.path), owed.given};
}

// Faults in the ranks' command line, after `--`, are reported together with those before it.
Invocation parse_launch(const CommandInfo& command, const Words& words) {
  const auto dashes = std::find(words.begin(), words.end(), "--");
  Invocation launch = parse_command(command, {words.begin(), dashes});
  if (is_help(launch)) return launch;
  auto& config = std::get<LaunchConfig>(launch.command);
  config.rank_arguments.assign(dashes == words.end() ? dashes : dashes + 1, words.end());
  Words& inner = config.rank_arguments;
  if (inner.empty() || inner.front() != "train") {
    const CommandInfo* other = inner.empty() ? nullptr : find_command(inner.front());
    launch.problems = merged(
        {launch.problems, refusal("`kiln launch` starts training: end the command line with `-- "
                                  "train …`." +
                                  (other == nullptr || other->instead_of_ranks.empty()
                                       ? ""
                                       : " " + other->instead_of_ranks))
                              .problems});
    return launch;
  }
  if (!config.log_path.empty() && config.log_path_given)
    inner.insert(inner.end(), {"--log-path", config.log_path});
  Invocation rank = parse_command(*find_command("train"), inner);
  if (is_help(rank)) return launch.problems.empty() ? rank : launch;
  const auto& train = std::get<TrainConfig>(rank.command);
  if (train.ranks.launch)
    rank.problems.add(
        Error(ErrorCode::kParameterParsing,
              "--ranks is given to both launch and train: give it once, before the `--`."));
  config.device = train.ranks.device;
  config.log_path = train.output.log_path;
  config.log_path_given = train.output.log_path_given;
  return {std::move(launch.command), merged({launch.problems, rank.problems}), rank.log_path,
          rank.log_path_given};
}

// Returns the names of the options in `words`, without leading dashes and with `-` instead of `_`.
Words named_options(const Words& words) {
  Words names;
  for (const std::string& word : words) {
    if (!word.starts_with("--")) continue;
    std::string name = word.substr(2, word.find('=') - 2);
    std::replace(name.begin(), name.end(), '_', '-');
    names.push_back(std::move(name));
  }
  return names;
}

// The job after `--` is a command line of `kiln train`.
Invocation parse_tune(const CommandInfo& command, const Words& words) {
  const auto dashes = std::find(words.begin(), words.end(), "--");
  Invocation tune = parse_command(command, {words.begin(), dashes});
  if (is_help(tune)) return tune;
  const Words inner(dashes == words.end() ? dashes : dashes + 1, words.end());
  if (inner.empty() || inner.front() != "train") {
    tune.problems =
        merged({tune.problems, refusal("`kiln tune` needs a job to try: end the command "
                                       "line with `-- train …`.")
                                   .problems});
    return tune;
  }
  Invocation job = parse_command(*find_command("train"), inner);
  if (is_help(job)) return tune.problems.empty() ? job : tune;
  auto& config = std::get<TuneConfig>(tune.command);
  config.train = std::get<TrainConfig>(std::move(job.command));
  config.given = named_options(inner);
  tune.problems = merged({tune.problems, job.problems,
                          overlaps_with_job("output-path", config.output_path, config.train)});
  return tune;
}

}  // namespace

Invocation parse_command_line(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return help(general_help(), /*asked_for=*/false);
  const std::string& first = arguments.front();
  if (first == "--version") return {.command = VersionRequest{}, .problems = {}, .log_path = {}};
  if (asks_for_help(first)) {
    if (arguments.size() == 1 || asks_for_help(arguments[1])) return help(general_help());
    const std::string name = name_of({arguments.begin() + 1, arguments.end()});
    const CommandInfo* command = find_command(name);
    return command == nullptr ? refuse_command(name)
                              : help(command_help(*command, arguments.back() == "all"));
  }
  if (first.starts_with('-')) {
    return refusal("'" + first + "' precedes the command: write `kiln COMMAND " + first +
                   " …` with one of " + join_choices(command_names()) + ".");
  }
  const std::string name = name_of(arguments);
  const CommandInfo* command = find_command(name);
  if (command == nullptr) return refuse_command(name);
  if (command->name == "launch") return parse_launch(*command, arguments);
  if (command->name == "tune") return parse_tune(*command, arguments);
  return parse_command(*command, arguments);
}

}  // namespace kiln
