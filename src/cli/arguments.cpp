// Reads the name and text of each option from argv and from the --config file. Words are split
// without regard to which options exist, so all faults can be reported together.
#include "cli/arguments.h"

#include <pwd.h>
#include <unistd.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "base/url.h"

namespace kiln {
namespace {

// A word of the command line: a value, or an option with or without one.
struct Token {
  std::string option;  // empty: a value
  std::optional<std::string> value = {};
};

std::vector<Token> split_tokens(std::span<const std::string> words) {
  std::vector<Token> tokens;
  bool has_dashes = false;  // after -- every word is a value
  for (const std::string& word : words) {
    const std::size_t end = word.find('=');
    if (word == "--" && !std::exchange(has_dashes, true)) continue;
    if (has_dashes || !word.starts_with("--"))
      tokens.push_back({"", word});
    else if (end == word.npos)
      tokens.push_back({word.substr(2)});
    else
      tokens.push_back({word.substr(2, end - 2), word.substr(end + 1)});
  }
  return tokens;
}

std::size_t num_words(const CommandInfo& command) {
  return 1U + std::ranges::count(command.name, ' ');
}

// Also if it cannot be said.
bool may_be_there(const std::string& path) {
  std::error_code failure;
  return std::filesystem::status(path, failure).type() != std::filesystem::file_type::not_found;
}

// Of this user, $HOME or what the system knows, for an empty name; empty: there is none.
std::string home_folder(const std::string& user) {
  if (std::string home = environment("HOME"); user.empty() && !home.empty()) return home;
  const passwd* known = user.empty() ? ::getpwuid(::getuid()) : ::getpwnam(user.c_str());
  return known == nullptr || known->pw_dir == nullptr ? "" : known->pw_dir;
}

class ArgumentParser {
 public:
  ArgumentParser(const CommandInfo& command, const std::vector<std::string>& words)
      : command_(command),
        tokens_(split_tokens(std::span(words).subspan(num_words(command)))),
        given_{.command = command, .words = words} {}

  Given run() {
    while (next_ < tokens_.size()) {
      const Token& token = tokens_[next_++];
      token.option.empty() ? take_positional(*token.value) : take_named(token);
    }
    if (!foreign_.empty()) {
      // The line to type has what would be missing.
      for (const Option& option : command_.options) given_.mentioned.push_back(&option);
      fault(joined(foreign_, ", ") + (foreign_.size() == 1 ? " is" : " are") +
            " another program's: " + line_to_type(command_, command_words()));
    }
    return std::move(given_);
  }

 private:
  int position() const { return static_cast<int>(next_); }

  std::vector<std::string> command_words() const {  // its name as one word
    const std::vector<std::string>& words = given_.words;
    std::vector<std::string> own = {command_.name};
    own.insert(own.end(), words.begin() + num_words(command_), words.end());
    return own;
  }

  void fault(const std::string& message) { given_.fault(position(), message); }

  // Returns the text of the next token, or null if that is an option or there is none.
  const std::string* peek() const {
    if (next_ >= tokens_.size() || !tokens_[next_].option.empty()) return nullptr;
    return &*tokens_[next_].value;
  }

  void take_named(const Token& token) {
    const std::string& name = token.option;
    if (name == "help") {
      given_.help = true;
      const std::string* word = token.value ? &*token.value : peek();
      if (word != nullptr) given_.help_word = *word;
      return;
    }
    const Option* option = find_option(command_, name);
    if (option == nullptr) {
      take_unknown(token);
      return;
    }
    if (option->kind == ValueKind::kFlag) {
      if (token.value)
        fault("--" + option->name + " takes no value: remove the '=' and everything after it.");
      store(*option, "True");
    } else if (token.value) {
      store(*option, *token.value);
    } else if (option->kind == ValueKind::kSwitch) {
      store(*option, next_is_its_value() ? *tokens_[next_++].value : "True");
    } else if (peek() != nullptr) {
      store(*option, *tokens_[next_++].value);
    } else {
      given_.mentioned.push_back(option);
      fault("--" + option->name + " needs a value: add " + option->value_name + " after it.");
      // Of a line without anything else, nothing more is told.
      if (given_.values.empty() && tokens_.size() == 1)
        for (const Option& other : command_.options) given_.mentioned.push_back(&other);
    }
  }

  // True if the token after a switch is its value; it may also be the positional argument.
  bool next_is_its_value() const {
    const std::string* text = peek();
    if (text == nullptr) return false;
    const bool is_number = text->find_first_not_of("0123456789") == text->npos;
    if (is_number || !closest(*text, {"True", "False"}).empty()) return true;
    for (const Option& option : command_.options) {
      const bool may_be_it = option.choices.empty() || !closest(*text, option.choices).empty();
      if (option.positional && may_be_it) return false;
    }
    return true;
  }

  void take_unknown(const Token& token) {
    if (const RemovedWord* removed = find_removed(command_.name, token.option)) {
      fault("--" + excerpt(token.option) + " " + removed->fate() + ".");
      const bool is_switch = removed->usual.starts_with("false");
      if (!token.value && (!is_switch || next_is_its_value())) skip_value();
      return;
    }
    if (is_foreign(command_, token.option)) {
      foreign_.push_back("--" + token.option);
      if (!token.value) skip_value();
      return;
    }
    const std::string guess = meant_option(command_, token.option);
    fault("--" + excerpt(token.option) + " is not an option of `kiln " + command_.name + "`." +
          (token.option == "ranks" && !command_.instead_of_ranks.empty()
               ? " " + command_.instead_of_ranks
           : guess.empty() ? " `kiln " + command_.name + " --help all` lists them."
                           : " Did you mean '--" + guess + "'?"));
    // Probably meant for this option: do not also report it as missing, and skip its value.
    if (const Option* meant = find_option(command_, guess)) given_.mentioned.push_back(meant);
    if (!token.value && skip_value()) {
      for (const Option& option : command_.options) {
        if (option.positional && option.required && option.instead.empty())
          given_.mentioned.push_back(&option);
      }
    }
  }

  // Skips what may be the value of an option that Kiln does not have, or several numbers.
  bool skip_value() {
    if (peek() == nullptr || is_dashed(*peek())) return false;
    const auto is_number = [](const std::string& text) {
      return text.find_first_not_of("0123456789.") == text.npos;
    };
    const bool has_numbers = is_number(*peek());
    ++next_;
    while (has_numbers && peek() != nullptr && is_number(*peek())) ++next_;
    return true;
  }

  // `text` begins with one dash.
  void take_short(const std::string& text) {
    const TypedWord typed = *split_word(command_, text);
    if (find_option(command_, typed.name) == nullptr && is_foreign(command_, typed.name))
      foreign_.push_back(typed.shown);
    else
      fault("'" + excerpt(text) + "' is not an option: option names start with two dashes. `kiln " +
            command_.name + " --help all` lists them.");
    if (!typed.value) skip_value();
  }

  // Whether a word may be the value of this option: nothing before it is, and no option is on the
  // line that is given instead of it. One that goes with another comes after it.
  bool takes_bare_word(const Option& option) const {
    if (!option.positional || (given_.has(option.name) && !option.repeatable)) return false;
    if (!option.instead.empty()) return given_.has(option.instead);
    return std::ranges::none_of(tokens_, [&](const Token& token) {
      const Option* other = token.option.empty() ? nullptr : find_option(command_, token.option);
      return other != nullptr && other->instead == option.name && !other->positional;
    });
  }

  void take_positional(const std::string& text) {
    if (text == "-h") {
      given_.help = true;
      return;
    }
    const auto refuse = [&](const std::string& why) {
      fault("'" + excerpt(text) + "' is not expected here: " + why);
    };
    // After -- every word stands for itself.
    if (is_dashed(text) && std::ranges::count(given_.words, "--") == 0) return take_short(text);
    const std::string name = text.substr(0, text.find('='));
    if (name != text && !may_be_there(text) &&
        (find_option(command_, name) != nullptr || is_foreign(command_, name))) {
      foreign_.push_back("'" + excerpt(text) + "'");
      return;
    }
    for (const Option& option : command_.options) {
      if (!takes_bare_word(option)) continue;
      const std::size_t before = given_.values.size();
      store(option, text);
      if (option.required || !option.default_text.empty()) return;
      given_.has_bare_path = true;
      if (given_.values.size() == before) return;
      if (const std::string& path = given_.values.back().text; !may_be_there(path))
        fault("'" + excerpt(path) + "' does not exist." + did_you_mean_path(path));
      return;
    }
    refuse("each option takes one value.");
  }

  void store(const Option& option, const std::string& text) {
    given_.mentioned.push_back(&option);
    if (const RawValue* earlier = given_.find(option.name); earlier && !option.repeatable) {
      fault("--" + option.name + " is given twice, as '" + excerpt(earlier->text) + "' and as '" +
            excerpt(text) + "': give it once.");
      return;
    }
    given_.add({&option, text, "--" + option.name, position()});
  }

  const CommandInfo& command_;
  const std::vector<Token> tokens_;
  std::size_t next_ = 0;
  std::vector<std::string> foreign_;  // words of other programs
  Given given_;
};

constexpr std::uint64_t kMaxFileBytes = 1 << 20;

// Collects the lines on which the documents of a file begin. YAML::LoadAll would count the
// documents, but in yaml-cpp 0.7 it never returns for a text such as ", e", which the parser takes
// for an endless series of documents.
class DocumentLines : public YAML::EventHandler {
 public:
  const std::vector<int>& lines() const { return lines_; }

  void OnDocumentStart(const YAML::Mark& mark) override { lines_.push_back(mark.line + 1); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  std::vector<int> lines_;
};

// JSON as YAML: a character in two halves, \ud83d\ude00, becomes \U0001f600.
std::string with_whole_characters(const std::string& text) {
  if (!trimmed(text).starts_with('{')) return text;
  const auto half_at = [&](std::size_t at) -> unsigned {
    unsigned value = 0;
    const char* const digits = text.data() + at + 2;
    if (text.compare(at, 2, "\\u") != 0 || text.size() < at + 6 ||
        std::from_chars(digits, digits + 4, value, 16).ptr != digits + 4)
      return 0;
    return value;
  };
  std::string whole;
  for (std::size_t at = 0; at < text.size();) {
    const unsigned high = text[at] == '\\' ? half_at(at) : 0;
    const unsigned low = high >= 0xd800 && high < 0xdc00 ? half_at(at + 6) : 0;
    const bool is_pair = low >= 0xdc00 && low < 0xe000;
    const std::size_t taken = is_pair ? 12 : text[at] == '\\' ? 2 : 1;
    if (is_pair)
      whole += formatted("\\U%08x", 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
    else
      whole += text.substr(at, taken);
    at += taken;
  }
  return whole;
}

class ConfigFile {
 public:
  ConfigFile(const std::string& path, Given& given) : path_(path), given_(given) {}

  void read() {
    try {
      take_documents(with_whole_characters(text()));
    } catch (const Error& error) {
      give_up(error.message());
    } catch (const YAML::Exception& failure) {
      give_up("The --config file '" + path_ + "', line " + std::to_string(failure.mark.line + 1) +
              ", is neither YAML nor JSON: " + failure.msg + ".");
    }
  }

 private:
  std::string place(int line) const {
    return "line " + std::to_string(line) + " of '" + path_ + "'";
  }

  // An unreadable file might set any option, so report none as missing.
  void give_up(const std::string& message) {
    for (const Option& option : given_.command.options) given_.mentioned.push_back(&option);
    given_.fault("config", message);
  }

  std::string text() const {
    const auto refuse = [&](const std::string& why) {
      throw Error(ErrorCode::kParameterParsing, "The --config file '" + path_ + "' " + why +
                                                    ": give the path of a YAML or JSON file.");
    };
    std::error_code absent;
    const std::filesystem::file_status status = std::filesystem::status(path_, absent);
    if (std::filesystem::is_directory(status)) refuse("is a folder");
    // Reading a pipe might never end.
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
      refuse("is a pipe or a device");
    return read_text_or(path_, kMaxFileBytes, "is larger than 1 MiB", refuse);
  }

  void take_documents(const std::string& text) {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    DocumentLines documents;
    while (documents.lines().size() < 2 && parser.HandleNextDocument(documents)) continue;
    if (documents.lines().size() > 1)
      given_.fault(kConfigFilePosition,
                   "The --config file '" + path_ +
                       "' contains more than one document, the second starting at line " +
                       std::to_string(documents.lines()[1]) + ": keep only one.");
    if (!documents.lines().empty()) take_mapping(YAML::Load(text));
  }

  void take_mapping(const YAML::Node& root) {
    if (root.IsNull()) return;
    if (!root.IsMap()) {
      given_.fault(kConfigFilePosition, "The --config file '" + path_ +
                                            "' is not a mapping: write lines such as 'epochs: 5'.");
      return;
    }
    for (const auto& entry : root) take_entry(entry.first, entry.second);
  }

  void take_entry(const YAML::Node& key, const YAML::Node& value) {
    const int line = key.Mark().line + 1;
    const int position = kConfigFilePosition + line;
    const std::string name = key.IsScalar() ? key.Scalar() : "";
    const Option* option = name == "config" ? nullptr : find_option(given_.command, name);
    if (option == nullptr) {
      const RemovedWord* removed = find_removed(given_.command.name, name);
      given_.fault(position,
                   "'" + excerpt(name) + "' (" + place(line) + ") " +
                       (removed == nullptr
                            ? "is not an option that can be set in a --config file." + guess(name)
                            : removed->fate() + "."));
      return;
    }
    given_.mentioned.push_back(option);
    const auto [earlier, is_new] = lines_.emplace(option, line);
    if (!is_new) {
      given_.fault(position, "'" + name + "' (" + place(line) + ") is given twice, first in line " +
                                 std::to_string(earlier->second) + ": give it once.");
      return;
    }
    if (!value.IsScalar() && !value.IsNull()) {
      given_.fault(position, "'" + name + "' (" + place(line) +
                                 ") is a list or a mapping, but must be a single value.");
      return;
    }
    const std::string text = value.IsNull() ? "" : value.Scalar();
    if (const RawValue* flag = given_.find(option->name)) {
      note_if_overridden(text, *flag);
      return;
    }
    const std::string where = "--" + option->name + " (" + place(line) + ")";
    given_.add({option, text, where, position});
  }

  void note_if_overridden(const std::string& text, const RawValue& flag) {
    if (in_small_letters(text) == in_small_letters(flag.text)) return;
    given_.overridden +=
        (given_.overridden.empty() ? "The --config file '" + path_ + "' is overridden by flags: "
                                   : "; ") +
        flag.option->name + " " + excerpt(text) + " -> " + excerpt(flag.text);
  }

  std::string guess(const std::string& name) const {
    const std::string meant = meant_option(given_.command, name);
    return meant.empty() || meant == "config" ? "" : " Did you mean '" + meant + "'?";
  }

  const std::string path_;
  Given& given_;
  std::map<const Option*, int> lines_;
};

std::filesystem::path resolved(const std::string& path) {
  std::error_code failure;
  std::filesystem::path absolute = std::filesystem::absolute(path, failure);
  std::filesystem::path canonical = std::filesystem::weakly_canonical(absolute, failure);
  if (failure) canonical = absolute.lexically_normal();
  // "a/b/" and "a/b" are one folder.
  return canonical.has_filename() ? canonical : canonical.parent_path();
}

}  // namespace

void Given::add(const RawValue& value) try {
  if (const RemovedWord* removed = find_removed(command.name, value.option->name, value.text)) {
    fault(value.position, value.where + " " + excerpt(value.text) + " " + removed->fate() + ".");
    return;
  }
  values.push_back(value);
  if (value.option->kind == ValueKind::kPath)
    values.back().text = local_path(value.text, value.option->name == "weights");
} catch (const std::invalid_argument& why) {
  values.pop_back();
  fault(value.position, value.where + " " + why.what() + ".");
}

const RawValue* Given::find(std::string_view name) const {
  const auto found = std::ranges::find(
      values, name, [](const RawValue& value) -> std::string_view { return value.option->name; });
  return found == values.end() ? nullptr : &*found;
}

bool Given::mentions(std::string_view name) const {
  return std::ranges::any_of(mentioned, [&](const Option* option) { return option->name == name; });
}

bool Given::is_set(const char* name, const std::string& text) const {
  const RawValue* value = find(name);
  if (value == nullptr) return false;
  const Option& option = *value->option;
  const std::string& other = text.empty() ? option.default_text : text;
  return is_same_setting(option, value->text, other) != text.empty();
}

void Given::imply(std::string_view name, const std::string& text, const char* by) {
  if (has(name)) return;
  const RawValue* reason = find(by);
  std::string where = "--" + std::string(name);
  if (reason != nullptr) where += std::string(" (of --") + by + " " + reason->text + ")";
  const Option* option = find_option(command, name);
  mentioned.push_back(option);
  values.push_back({option, text, where, reason == nullptr ? kMissingPosition : reason->position,
                    /*is_implied=*/reason != nullptr});
}

int Given::position(std::string_view name) const {
  const RawValue* value = find(name);
  return value == nullptr ? kMissingPosition : value->position;
}

void Given::fault(int position, const std::string& message, ErrorCode code) {
  faults.emplace_back(position, Error(code, message));
}

void Given::fault(const char* name, const std::string& message, ErrorCode code) {
  fault(position(name), message, code);
}

void Given::keep_apart(const char* output, const std::vector<const char*>& inputs) {
  const RawValue* path = find(output);
  for (const char* input : inputs)
    if (path != nullptr)
      read(input, [&](const std::string& text, const std::string&) {
        const std::string overlap = overlap_of(output, path->text, input, text);
        if (!overlap.empty()) fault(output, overlap);
      });
}

void Given::report_missing() {
  for (const Option& option : command.options) {
    const Option* instead = option.instead.empty() ? nullptr : find_option(command, option.instead);
    if (instead != nullptr && has(option.name) && has(instead->name))
      fault(position(instead->name), "--" + option.name + " and --" + instead->name +
                                         " are both given, but mean the same thing: use only one "
                                         "of them.");
    if (!option.required || mentions(option.name) || mentions(option.instead)) continue;
    fault(kMissingPosition, "--" + option.name + " " + option.value_name + " is missing (" +
                                first_sentence(option.help) + "): add it" +
                                (instead == nullptr ? "" : ", or --" + instead->name) + ".");
  }
}

OptionTexts Given::effective_options() const {
  OptionTexts options;
  for (const Option& option : command.options) {
    const RawValue* value = find(option.name);
    options.emplace_back(option.name,
                         value == nullptr ? option.default_text : without_secrets(value->text));
  }
  return options;
}

Problems Given::problems() const {
  std::vector<std::pair<int, Error>> sorted = faults;
  std::ranges::stable_sort(sorted, {}, [](const auto& fault) { return fault.first; });
  Problems problems;
  for (auto& [position, error] : sorted) problems.add(std::move(error));
  return merged({problems});
}

Given parse_arguments(const CommandInfo& command, const std::vector<std::string>& words) {
  return ArgumentParser(command, words).run();
}

void read_config_file(Given& given) {
  if (const RawValue* file = given.find("config"); file != nullptr && !file->text.empty())
    ConfigFile(file->text, given).read();
}

std::string local_path(const std::string& text, bool may_be_url) {
  const auto refuse = [&](const std::string& why) -> std::string {
    throw std::invalid_argument("'" + text + "' " + why);
  };
  const std::string first = text.substr(0, text.find('/')), rest = text.substr(first.size());
  const bool is_home = first.starts_with('~'), is_variable = first.starts_with('$');
  std::string name = first.substr(is_home || is_variable ? 1 : 0);
  if (is_variable && name.starts_with('{') && name.ends_with('}'))
    name = name.substr(1, name.size() - 2);
  if (first != "~" && may_be_there(text)) return text;
  if (first != "~" && !((is_home || is_variable) && is_host_name(name)))
    return may_be_url || !is_url(text)
               ? text
               : refuse(
                     "is a URL, but Kiln downloads no data and uploads none: mount or copy what "
                     "it names, and give the path of that");
  const std::string value = is_home ? home_folder(name) : environment(name.c_str());
  if (!value.starts_with('/'))
    return refuse("begins with '" + first +
                  "', which is no folder here: give the whole path, or './" + text +
                  "' for what has that name");
  return first == "~"
             ? value + rest
             : refuse("begins with '" + first + "', which a shell would have replaced: give " +
                      shell_word(value + rest));
}

bool lies_inside(const std::string& inner, const std::string& outer) {
  return !inner.empty() && !outer.empty() && is_inside(resolved(inner), resolved(outer));
}

std::string overlap_of(const char* output_name, const std::string& output, const char* input_name,
                       const std::string& input) {
  if (output.empty() || input.empty()) return {};
  const std::filesystem::path out = resolved(output);
  const std::filesystem::path in = resolved(input);
  const bool is_of_file = is_file(in);
  std::string relation;
  if (out == in) {
    relation = is_of_file ? "is the same file as" : "is the same folder as";
  } else if (is_inside(out, in)) {
    relation = "is inside";
  } else if (is_inside(in, out)) {
    relation = "contains";
  } else {
    return {};
  }
  return std::string("--") + output_name + " '" + output + "' " + relation + " --" + input_name +
         " '" + input + "': choose " + (is_of_file ? "another path" : "a separate folder") +
         " for the output.";
}

Problems merged(const std::vector<Problems>& parts) {
  std::vector<Error> errors;
  for (const Problems& part : parts)
    for (const Error& error : part.errors())
      if (std::ranges::find(errors, error.message(), &Error::message) == errors.end())
        errors.push_back(error);
  std::stable_partition(errors.begin(), errors.end(),
                        [](const Error& error) { return exit_code(error.code()) == 2; });
  Problems problems;
  for (Error& error : errors) problems.add(std::move(error));
  return problems;
}

}  // namespace kiln
