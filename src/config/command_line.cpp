#include "config/command_line.h"

#include <algorithm>

#include "config/closest.h"
#include "config/raw.h"

namespace kiln {
namespace {

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandInfo& command : command_table()) names.push_back(command.name);
  return names;
}

[[noreturn]] void fail(const std::string& message) {
  Problems problems;
  problems.add(Error(ErrorCode::kParameterParsing, message));
  throw problems;
}

const CommandInfo& command_named(const std::string& name) {
  if (const CommandInfo* command = find_command(name)) return *command;
  const std::string guess = did_you_mean(name, command_names());
  fail("'" + name + "' is not a command of kiln." +
       (guess.empty() ? " The commands are " + join_choices(command_names()) + "." : guess));
}

// The command's name at the beginning of `words`: one word, or two where the table says so.
std::string name_of(const std::vector<std::string>& words) {
  if (words.size() < 2 || find_command(words[0] + " " + words[1]) == nullptr) return words[0];
  return words[0] + " " + words[1];
}

bool is_help(const std::string& word) {
  return word == "help" || word == "--help" || word == "-h";
}

// `arguments` after the command's name.
Command parse_command(const CommandInfo& command, const std::vector<std::string>& arguments,
                      std::string* log_path) {
  RawArguments raw = parse_arguments(command, arguments);
  if (raw.help) return HelpRequest{command_help(command)};
  if (const RawValue* file = raw.find("config"); file != nullptr && !file->text.empty()) {
    read_config_file(command, std::string(file->text), raw);
  }
  if (log_path != nullptr) {
    const RawValue* log = raw.find("log-path");
    const Option* option = find_option(command, "log-path");
    if (log != nullptr && !log->text.empty()) {
      *log_path = log->text;
    } else if (option != nullptr) {
      *log_path = option->default_text;
    }
  }
  return bind_command(command, raw);
}

// The ranks' command line after `--` has its own faults, which are told with those before it.
Command parse_launch(const CommandInfo& command, const std::vector<std::string>& arguments,
                     std::string* log_path) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const std::vector<std::string> own(arguments.begin(), dashes);
  std::vector<std::string> inner(dashes == arguments.end() ? dashes : dashes + 1, arguments.end());
  Problems problems;
  Command result = LaunchConfig{};
  problems.collect([&] { result = parse_command(command, own, log_path); });
  if (std::holds_alternative<HelpRequest>(result)) return result;
  LaunchConfig& config = std::get<LaunchConfig>(result);
  if (inner.empty() || inner.front() != "train") {
    problems.add(Error(ErrorCode::kParameterParsing,
                       "`kiln launch` starts training: end its command line with `-- train …`."));
    throw problems;
  }
  if (config.log_path_given) {
    inner.emplace_back("--log-path");
    inner.push_back(config.log_path);
  }
  std::string train_log_path;
  Command train = HelpRequest{};
  try {
    train = parse_command_line(inner, &train_log_path);
  } catch (const TrainCommandFaults&) {
    if (log_path != nullptr) *log_path = train_log_path;
    if (problems.empty()) throw;
    problems.collect([] { throw; });
  }
  problems.throw_if_any();
  if (std::holds_alternative<HelpRequest>(train)) return train;
  if (log_path != nullptr) *log_path = train_log_path;
  const TrainConfig& ranks = std::get<TrainConfig>(train);
  if (ranks.ranks.launch)
    fail("--ranks is given to train as well as to launch: give it once, before the `--`.");
  config.device = ranks.ranks.device;
  config.log_path = ranks.output.log_path;
  config.log_path_given = ranks.output.log_path_given;
  config.rank_arguments = std::move(inner);
  return result;
}

}  // namespace

Command parse_command_line(const std::vector<std::string>& arguments, std::string* log_path) {
  if (arguments.empty()) return HelpRequest{general_help(), /*asked_for=*/false};
  const std::string& first = arguments.front();
  if (first == "--version") return VersionRequest{};
  if (is_help(first)) {
    if (arguments.size() == 1 || is_help(arguments[1])) return HelpRequest{general_help()};
    return HelpRequest{
        command_help(command_named(name_of({arguments.begin() + 1, arguments.end()})))};
  }
  if (first.starts_with('-')) {
    fail("'" + first + "' comes before a command: write `kiln COMMAND " + first +
         " …` with one of " + join_choices(command_names()) + ".");
  }
  const CommandInfo& command = command_named(name_of(arguments));
  const std::ptrdiff_t num_words = 1 + std::count(command.name.begin(), command.name.end(), ' ');
  const std::vector<std::string> rest(arguments.begin() + num_words, arguments.end());
  if (command.name == "launch") return parse_launch(command, rest, log_path);
  return parse_command(command, rest, log_path);
}

}  // namespace kiln
