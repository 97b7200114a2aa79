"""Completions of commands, options and values in three shells: static scripts, so that no key starts the program."""
import re

from option_tables import first_sentence

PATHS = ["/"]  # stands for any path


def shell_word(text):
    return text if re.fullmatch(r"[A-Za-z0-9_./:=,+@%-]+", text) else "'" + text.replace("'", "'\\''") + "'"


def values_of(option):
    """What a value can be: the choices, with spaces escaped, also "auto" and "larger" of "auto|larger|N". Empty: anything."""
    if option["kind"] == "switch":
        return ["True", "False"]
    if option["choices"]:
        return [choice.replace(" ", "\\ ") for choice in option["choices"]]
    words = []
    for form in option["value_name"].split("|"):
        if form.startswith(("DIR", "FILE", "PATH", "RUN")):
            return PATHS
        if re.fullmatch("True|False|[a-z]+", form):
            words.append(form)
    return words


def bare_values(command):
    """The same of words without an option's name: paths, unless the command's row says otherwise."""
    return next((values_of(option) for option in command["options"] if option["positional"]), PATHS)


def filled(script, commands, line, separator, lines_of):
    """`script` with what is marked in it: a `line` for each first word of a command, the words after `transform`, and the
    lines of all commands."""
    first, second = {}, []
    for command in commands:
        word, _, more = command["name"].partition(" ")
        first.setdefault(word, first_sentence(command["summary"]))
        second += [more] if more else []
    first["help"] = "Show the options of a command"
    marks = {"@first@": "".join(line.replace("@word@", word).replace("@about@", shell_word(about))
                                for word, about in first.items()),
             "@second@": "".join(word + separator for word in second),
             "@commands@": "".join(map(lines_of, commands))}
    return re.sub("|".join(marks), lambda mark: marks[mark[0]], script)


# ---- bash ----

BASH = r"""# Completions of kiln for bash.
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
"""


def bash_lines(command):
    names = "".join(f"--{option['name']}|" for option in command["options"])
    cases = "".join(f"        --{option['name']}) choices={shell_word('|'.join(values_of(option)))} ;;\n"
                    for option in command["options"] if option["kind"] != "flag")
    return (f"    '{command['name']}')\n      options='{names}--help' choices={shell_word('|'.join(bare_values(command)))}\n"
            f"      case $before in\n{cases}      esac ;;\n")


def bash(commands):
    return filled(BASH, commands, "@word@|", "|", bash_lines)


# ---- zsh ----

ZSH = r"""#compdef kiln
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
"""


def zsh_action(values):
    return "_files" if values == PATHS else "(" + " ".join(values) + ")" if values else " "


def zsh_option(option):
    about = re.sub(r"[\\\[\]]", r"\\\g<0>", first_sentence(option["help"]))
    begin = ("*--" if option["repeatable"] else "--") + option["name"]
    if option["kind"] == "flag":
        return f"{begin}[{about}]"
    value = option["value_name"].replace(":", "\\:") + ":" + zsh_action(values_of(option))
    return f"{begin}=[{about}]" + ("::" if option["kind"] == "switch" else ":") + value


def zsh_lines(command):
    options = "".join(f"      {shell_word(zsh_option(option))} \\\n" for option in command["options"])
    return (f"    {shell_word(command['name'])}) _arguments \\\n{options}      '--help[Show the options]' "
            + shell_word("*:word:" + zsh_action(bare_values(command))) + " ;;\n")


def zsh(commands):
    return filled(ZSH, commands, "    @word@:@about@\n", " ", zsh_lines)


# ---- fish ----

FISH = r"""# Completions of kiln for fish.
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
@first@@commands@"""


def fish_values(values):
    return " -F" if values == PATHS else f" -a '{' '.join(values)}'" if values else ""


def fish_lines(command):
    begin = "complete -c kiln -n " + shell_word("__kiln_is " + command["name"])
    text = f"{begin} -l help\n{begin}{fish_values(bare_values(command))}\n"
    for option in command["options"]:
        values = values_of(option)
        text += f"{begin} -l {option['name']} -d {shell_word(first_sentence(option['help']))}"
        if option["kind"] != "flag":
            text += (" -r" if values == PATHS else " -x") + fish_values(values)
        text += "\n"
    return text


def fish(commands):
    return filled(FISH, commands, "complete -c kiln -n '__kiln_is; or __kiln_is help' -a @word@ -d @about@\n", " ", fish_lines)
