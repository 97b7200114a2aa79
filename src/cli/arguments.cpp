// Boost.Program_options splits the words, and throws at none, so that all faults are told together:
// each option may have a value or none, and what it does not know comes back.
#include "cli/arguments.h"

#include <algorithm>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <optional>
#include <utility>

#include "base/files.h"
#include "base/url.h"
#include "cli/paths.h"

namespace kiln {
namespace {

namespace po = boost::program_options;

class ArgumentParser {
 public:
  ArgumentParser(const CommandInfo& command, const std::vector<std::string>& words,
                 const BucketFolders& copies)
      : command_(command),
        given_{.command = command, .words = words, .copies = copies},
        line_(words.begin() + std::ranges::count(command.name, ' '), words.end()) {
    po::options_description known;
    add_row(known, {.name = "help"});
    for (const Option& option : command.options) add_row(known, option);
    using enum po::command_line_style::style_t;
    words_ = po::command_line_parser({line_.begin() + 1, line_.end()})
                 .options(known)
                 .style(allow_long | long_allow_adjacent | long_allow_next)
                 .allow_unregistered()
                 .extra_style_parser([this](auto& rest) { return read_word(rest); })
                 .run()
                 .options;
  }

  Given run() {
    while (next_ < words_.size()) {
      const po::option& word = words_[next_++];
      if (word.string_key.empty())
        parse_bare(word.value.front());
      else
        parse_named(word);
    }
    if (foreign_.empty()) return std::move(given_);
    given_.mention_all();  // the line to type has what would be missing
    fault(joined(foreign_, ", ") + (foreign_.size() == 1 ? " is" : " are") +
          " another program's: " + line_to_type(command_, line_));
    return std::move(given_);
  }

 private:
  // What Boost does not read in the first of the words that are left: other names of an option,
  // which are replaced there, and a value that is empty, `--a=`. Nothing is returned for the rest.
  std::vector<po::option> read_word(std::vector<std::string>& rest) {
    std::string& word = rest.front();
    if (word == "-h") word = "--help";
    if (word == "--") num_literal_ = rest.size() - 1;
    if (!word.starts_with("--")) return {};
    const std::size_t end = std::min(word.find('='), word.size());
    if (const Option* known = find_option(command_, word.substr(2, end - 2)))
      word.replace(2, end - 2, known->name);
    if (word.find('=') + 1 != word.size()) return {};
    po::option option(word.substr(2, word.size() - 3), {""});
    option.original_tokens = {word};
    rest.erase(rest.begin());
    return {option};
  }

  void fault(const std::string& message) { given_.fault(static_cast<int>(next_), message); }

  // Returns the text of the next word, or null if that is an option or there is none.
  const std::string* peek() const {
    if (next_ >= words_.size() || !words_[next_].string_key.empty()) return nullptr;
    return &words_[next_].value.front();
  }

  void parse_named(const po::option& word) {
    const std::string text = word.value.empty() ? "" : word.value.front();
    if (word.string_key == "help") {
      given_.help = true;
      given_.help_word = text;
      return;
    }
    const Option* option = find_option(command_, word.string_key);
    if (option == nullptr) return parse_unknown(word);
    const bool is_flag = option->kind == ValueKind::kFlag;
    const bool is_next = word.original_tokens.size() > 1;  // the value is a word of its own
    if (is_flag && !word.value.empty() && !is_next)
      fault("--" + option->name + " takes no value: remove the '=' and everything after it.");
    if (is_flag || (option->kind == ValueKind::kSwitch &&
                    (word.value.empty() || (is_next && !is_value_of_switch(text))))) {
      store(*option, "True");
      if (is_next) parse_bare(text);
    } else if (!word.value.empty()) {
      store(*option, text);
    } else {
      given_.mentioned.push_back(option);
      fault("--" + option->name + " needs a value: add " + option->value_name + " after it.");
      // Of a line without anything else, nothing more is told.
      if (given_.values.empty() && words_.size() == 1) given_.mention_all();
    }
  }

  // Whether a word after a switch is its value; it may also be a path without an option's name.
  bool is_value_of_switch(const std::string& text) const {
    const bool is_number = text.find_first_not_of("0123456789") == text.npos;
    if (is_number || !closest(text, {"True", "False"}).empty()) return true;
    return std::ranges::none_of(command_.options, [&](const Option& option) {
      return option.positional &&
             (option.choices.empty() || !closest(text, option.choices).empty());
    });
  }

  void parse_unknown(const po::option& word) {
    const std::string& name = word.string_key;
    const RemovedWord* removed = find_removed(command_.name, name);
    if (removed != nullptr || foreign_option(command_, name)) {
      if (removed != nullptr) fault("--" + excerpt(name) + " " + removed->fate() + ".");
      if (removed == nullptr) foreign_.push_back("--" + name);
      const bool is_switch = removed != nullptr && removed->usual.starts_with("false");
      const bool is_next = peek() != nullptr && (!is_switch || is_value_of_switch(*peek()));
      if (word.value.empty() && is_next) skip_value();
      return;
    }
    const std::string guess = meant_option(command_, name);
    fault("--" + excerpt(name) + " is not an option of `kiln " + command_.name + "`." +
          (name == "ranks" && !command_.instead_of_ranks.empty() ? " " + command_.instead_of_ranks
           : guess.empty() ? " `kiln " + command_.name + " --help all` lists them."
                           : " Did you mean '--" + guess + "'?"));
    // Probably meant for this option: do not also report it as missing, and skip its value.
    if (const Option* meant = find_option(command_, guess)) given_.mentioned.push_back(meant);
    if (!word.value.empty() || !skip_value()) return;
    for (const Option& option : command_.options)
      if (option.positional && option.required && option.instead.empty())
        given_.mentioned.push_back(&option);
  }

  // Skips what may be the value of an option that Kiln does not have, or several numbers.
  bool skip_value() {
    if (peek() == nullptr || is_dashed(*peek())) return false;
    const auto is_number = [&] {
      return peek() != nullptr && peek()->find_first_not_of("0123456789.") == std::string::npos;
    };
    const bool has_numbers = is_number();
    do ++next_;
    while (has_numbers && is_number());
    return true;
  }

  // Whether a word may be the value of this option: nothing before it is, and no option is on the
  // line that is given instead of it. One that goes with another comes after it.
  bool takes_bare_word(const Option& option) const {
    if (!option.positional || (given_.has(option.name) && !option.repeatable)) return false;
    if (!option.instead.empty()) return given_.has(option.instead);
    return std::ranges::none_of(words_, [&](const po::option& word) {
      const bool is_bare = word.string_key.empty();
      const Option* other = is_bare ? nullptr : find_option(command_, word.string_key);
      return other != nullptr && other->instead == option.name && !other->positional;
    });
  }

  void parse_bare(const std::string& text) {
    const bool is_literal = next_ + num_literal_ > words_.size();  // it stands for itself
    const std::optional<TypedWord> typed = is_literal ? std::nullopt : split_word(command_, text);
    const bool is_own = typed && find_option(command_, typed->name) != nullptr;
    const bool is_foreign = typed && foreign_option(command_, typed->name);
    if (typed && is_dashed(text)) {
      if (is_foreign && !is_own)
        foreign_.push_back(typed->shown);
      else
        fault("'" + excerpt(text) +
              "' is not an option: option names start with two dashes. `kiln " + command_.name +
              " --help all` lists them.");
      if (!typed->value) skip_value();
      return;
    }
    if ((is_own || is_foreign) && !may_be_there(text)) return foreign_.push_back(typed->shown);
    for (const Option& option : command_.options) {
      if (!takes_bare_word(option)) continue;
      const std::size_t before = given_.values.size();
      store(option, text);
      if (option.required || !option.default_text.empty()) return;
      given_.has_bare_path = true;
      if (given_.values.size() == before) return;
      if (const std::string& path = given_.values.back().text;
          !may_be_there(path) && !is_bucket(path))
        fault("'" + excerpt(path) + "' does not exist." + did_you_mean_path(path));
      return;
    }
    fault("'" + excerpt(text) + "' is not expected here: each option takes one value.");
  }

  void store(const Option& option, const std::string& text) {
    given_.mentioned.push_back(&option);
    if (const GivenValue* earlier = given_.find(option.name); earlier && !option.repeatable) {
      fault("--" + option.name + " is given twice, as '" + excerpt(earlier->text) + "' and as '" +
            excerpt(text) + "': give it once.");
      return;
    }
    given_.add({{&option, text, Origin::kGiven}, static_cast<int>(next_)});
  }

  const CommandInfo& command_;
  Given given_;
  const std::vector<std::string> line_;  // from the last word of the command's name
  std::vector<po::option> words_;
  std::size_t num_literal_ = 0;  // of the words, the last ones, after --
  std::size_t next_ = 0;
  std::vector<std::string> foreign_;  // words of other programs
};

}  // namespace

Given parse_arguments(const CommandInfo& command, const std::vector<std::string>& words,
                      const BucketFolders& copies) {
  return ArgumentParser(command, words, copies).run();
}

}  // namespace kiln
