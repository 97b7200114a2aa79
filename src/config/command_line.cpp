#include "config/command_line.h"

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

bool is_help(const std::string& word) {
  return word == "help" || word == "--help" || word == "-h";
}

}  // namespace

Command parse_command_line(const std::vector<std::string>& arguments, std::string* log_path) {
  if (arguments.empty()) {
    fail("No command is given: the commands are " + join_choices(command_names()) +
         "; `kiln --help` says more.");
  }
  const std::string& first = arguments.front();
  if (first == "--version") return VersionRequest{};
  if (is_help(first)) {
    if (arguments.size() == 1 || is_help(arguments[1])) return HelpRequest{general_help()};
    return HelpRequest{command_help(command_named(arguments[1]))};
  }
  if (first.starts_with('-')) {
    fail("'" + first + "' comes before a command: write `kiln COMMAND " + first +
         " …` with one of " + join_choices(command_names()) + ".");
  }
  const CommandInfo& command = command_named(first);
  RawArguments raw = parse_arguments(command, {arguments.begin() + 1, arguments.end()});
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

}  // namespace kiln
