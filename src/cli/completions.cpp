// Completions of commands, options and values: static scripts, so that no key starts the program.
#include <algorithm>
#include <sstream>

#include "base/text.h"
#include "cli/describe.h"

namespace kiln {
namespace {

using Words = std::vector<std::string>;

std::string replaced(std::string text, std::string_view what, std::string_view instead) {
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += instead.size())
    text.replace(at, what.size(), instead);
  return text;
}

// What a value can be: the choices, with spaces escaped, also "auto" and "larger" of
// "auto|larger|N". "/" stands for any path. Empty: anything.
Words values_of(const Option& option) {
  if (option.kind == ValueKind::kSwitch) return {"True", "False"};
  Words words = option.choices;
  for (std::string& word : words) word = replaced(word, " ", "\\ ");
  if (!words.empty()) return words;
  std::istringstream forms(option.value_name);
  for (std::string form; std::getline(forms, form, '|');) {
    for (const char* name : {"DIR", "FILE", "PATH", "RUN"})
      if (form.starts_with(name)) return {"/"};
    if (form == "True" || form == "False" ||
        std::ranges::all_of(form, [](char c) { return c >= 'a' && c <= 'z'; }))
      words.push_back(form);
  }
  return words;
}

// The same of words without an option's name: paths, unless the command's row says otherwise.
Words bare_values(const CommandInfo& command) {
  const auto found = std::ranges::find(command.options, true, &Option::positional);
  return found == command.options.end() ? Words{"/"} : values_of(*found);
}

bool is_path(const Words& values) {
  return values == Words{"/"};
}

// `script` with what is marked in it: a `line` for each first word of a command, the words after
// `transform`, and the lines of all commands.
std::string filled(std::string script, std::string_view line, char separator,
                   std::string (*lines_of)(const CommandInfo&)) {
  std::string first, second, lines;
  const auto add = [&](std::string_view word, const std::string& about) {
    first += replaced(replaced(std::string(line), "@word@", word), "@about@", shell_word(about));
  };
  for (const CommandInfo& command : command_table()) {
    const std::string word = command.name.substr(0, command.name.find(' '));
    if (word == command.name || second.empty()) add(word, first_sentence(command.summary));
    if (word != command.name) second += command.name.substr(word.size() + 1) + separator;
    lines += lines_of(command);
  }
  add("help", "Show the options of a command");
  script = replaced(replaced(std::move(script), "@first@", first), "@second@", second);
  return replaced(std::move(script), "@commands@", lines);
}

// ---- bash ----

constexpr const char* kBash = R"(# Completions of kiln for bash.
_kiln() {
  local IFS='|' current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command= options= choices= word  # choices: words, or / for paths
  COMPREPLY=()
  [[ $before != = ]] || before=${COMP_WORDS[COMP_CWORD - 2]}  # --name=value is three words
  [[ $current != = ]] || current=
  for word in "${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do
    case $command/$word in
      launch/-- | tune/--) command=-- ;;
      transform/*) command="transform $word" ;;
      /* | --/*) command=$word ;;
    esac
  done
  before=${before//_/-}
  case $command in
    '') options='--help|--version' choices='@first@' ;;
    help) choices='@first@' ;;
    --) choices=train ;;
    transform) choices='@second@' ;;
@commands@  esac
  [[ $current != -* ]] || choices=$options
  [[ $choices != *[/\ ]* ]] || compopt -o filenames 2> /dev/null  # quotes spaces
  if [[ $choices == / ]]; then set -- -f; else set -- -W "$choices"; fi
  mapfile -t COMPREPLY < <(compgen "$@" -- "$current")
}
complete -F _kiln kiln
)";

std::string bash_lines(const CommandInfo& command) {
  std::string names, cases;
  for (const Option& option : command.options) {
    names += "--" + option.name + "|";
    if (option.kind != ValueKind::kFlag)
      cases += "        --" + option.name +
               ") choices=" + shell_word(joined(values_of(option), "|")) + " ;;\n";
  }
  return "    '" + command.name + "')\n      options='" + names +
         "--help' choices=" + shell_word(joined(bare_values(command), "|")) +
         "\n      case $before in\n" + cases + "      esac ;;\n";
}

// ---- zsh ----

constexpr const char* kZsh = R"(#compdef kiln
# Completions of kiln for zsh.
_kiln() {
  local -a commands=(
@first@  )
  local -i dashes=${words[(I)--]}
  if (( dashes > 1 && dashes < CURRENT )); then  # the job of launch and tune
    compset -n $dashes
    commands=(train)
  fi
  if (( CURRENT == 2 )); then
    _describe command commands -- '(--help --version)'
    return
  fi
  compset -n 2
  local command=$words[1]
  if [[ $command == transform ]]; then
    if (( CURRENT == 2 )); then compadd @second@; return; fi
    compset -n 2
    command+=" $words[1]"
  fi
  case $command in
    help) _describe command commands ;;
@commands@  esac
}
_kiln "$@"
)";

std::string zsh_action(const Words& values) {
  if (is_path(values)) return "_files";
  return values.empty() ? " " : "(" + joined(values, " ") + ")";
}

std::string zsh_lines(const CommandInfo& command) {
  std::string text = "    " + shell_word(command.name) + ") _arguments \\\n";
  for (const Option& option : command.options) {
    std::string help = first_sentence(option.help);
    for (const std::string sign : {"\\", "[", "]"}) help = replaced(help, sign, "\\" + sign);
    std::string spec = (option.repeatable ? "*--" : "--") + option.name;
    spec += option.kind == ValueKind::kFlag ? "[" : "=[";
    spec += help + "]";
    if (option.kind != ValueKind::kFlag)
      spec += (option.kind == ValueKind::kSwitch ? "::" : ":") +
              replaced(option.value_name, ":", "\\:") + ":" + zsh_action(values_of(option));
    text += "      " + shell_word(spec) + " \\\n";
  }
  return text + "      '--help[Show the options]' " +
         shell_word("*:word:" + zsh_action(bare_values(command))) + " ;;\n";
}

// ---- fish ----

constexpr const char* kFish = R"(# Completions of kiln for fish.
function __kiln_is
    set -l command
    for word in (commandline -opc)[2..]
        switch "$command/$word"
            case launch/-- tune/--
                set command --
            case 'transform/*'
                set command "transform $word"
            case '/*'
                set command $word
        end
    end
    test "$command" = "$argv"
end
function __kiln_job  # after --
    set -l words (commandline -opc)
    set -e words[1..(contains -i -- -- $words)]
    count $words > /dev/null; and complete -C "kiln $words "(commandline -ct); or echo train
end
complete -c kiln -f
complete -c kiln -n __kiln_is -l help -d 'Show the commands'
complete -c kiln -n __kiln_is -l version -d 'Show the versions of kiln and its libraries'
complete -c kiln -n '__kiln_is --' -a '(__kiln_job)'
complete -c kiln -n '__kiln_is transform' -a '@second@'
@first@@commands@)";

std::string fish_values(const Words& values) {
  if (is_path(values)) return " -F";
  return values.empty() ? "" : " -a '" + joined(values, " ") + "'";
}

std::string fish_lines(const CommandInfo& command) {
  const std::string begin = "complete -c kiln -n " + shell_word("__kiln_is " + command.name);
  std::string text = begin + " -l help\n" + begin + fish_values(bare_values(command)) + "\n";
  for (const Option& option : command.options) {
    const Words values = values_of(option);
    text += begin + " -l " + option.name + " -d " + shell_word(first_sentence(option.help));
    if (option.kind != ValueKind::kFlag)
      text += (is_path(values) ? " -r" : " -x") + fish_values(values);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string bash_completions() {
  return filled(kBash, "@word@|", '|', bash_lines);
}

std::string zsh_completions() {
  return filled(kZsh, "    @word@:@about@\n", ' ', zsh_lines);
}

std::string fish_completions() {
  return filled(kFish, "complete -c kiln -n '__kiln_is; or __kiln_is help' -a @word@ -d @about@\n",
                ' ', fish_lines);
}

}  // namespace kiln
