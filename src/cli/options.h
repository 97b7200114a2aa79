// What the rows of commands and options are made of, which *_options.cpp and train_rows.cpp have:
// parsing, range checks, help, and the output of `kiln describe` are generated from them, and of
// that component files, completions, the tables of docs/ (environment/generate.py). They do not
// know what executes a command (see tools/commands.h), so they need neither LibTorch nor MPI.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/run_config.h"

namespace boost::program_options {
class options_description;
}

namespace kiln {

struct Given;

enum class ValueKind {  // tools/describe has their names
  kText,
  kPath,  // as local_path() reads it
  kInteger,
  kAutoOrInteger,
  kNumber,          // greater than `minimum`, at most `maximum`
  kNumberFrom,      // from `minimum` to `maximum`
  kChoice,          // one of `choices`
  kChoiceOrNumber,  // one of `choices`, or a number as for kNumber
  kCountedChoice,   // one of `choices`, or the last one and a count: parameter-server:2
  kModelName,       // one of `choices`; any other name is error 159
  kBoolean,         // True or False, in any case
  kSwitch,          // as kBoolean; True if given without a value
  kFlag,            // takes no value
  kShare,           // greater than 0, at most 1: 0.95 or 95%
  kAllowance,       // a count, or a share such as 1%
  kEvery,           // a number of epochs, of steps and a time, such as 1epoch,10min
  kAugment,         // a set of operations, such as crop,flip (record/vocabulary.h)
  kDuration,        // a time with its unit, such as 30min
  kImageSize,       // a length in pixels, or a height and a width: 256 or [224,160]
  kCropSize,        // auto, larger or an integer
  kAutoOrSize,      // auto, a length in pixels, or a height and a width: 224 or 320x240
};

// What happens if a run resumes with a different value of this option.
enum class Effect {
  kFree,    // nothing
  kBits,    // results may differ in their last bits
  kResult,  // the result would change: the run is refused
};

// An option's role on a designer's canvas, for the component files.
enum class Canvas {
  kHidden,
  kParameter,
  kDataIn,  // a folder of images, or of operations on images
  kDataOut,
  kModelIn,  // a folder that holds a model
  kModelOut,
  kFileIn,       // one file, optional
  kFolderIn,     // a folder, optional
  kModelFileIn,  // one file that holds a model
  kCheckpoints,  // a folder that survives when its job is stopped; only in Azure ML
  kRanksOfHost,  // the number of ranks to start; auto unless the platform starts them
  kKubeflowRun,  // Kubeflow's JSON that says where the artifact `metrics` goes
};

struct Option {
  std::string name = {};          // without dashes
  std::string port_name = {};     // the name in component files, accepted too; empty: `name`
  std::string value_name = {};    // as shown in help: DIR, N, auto|N
  std::string default_text = {};  // empty: none
  std::string unit = {};
  std::string group = {};
  std::string help = {};
  ValueKind kind = ValueKind::kText;
  bool required = false;
  // The name of another option that may be given instead, but not both. Empty: none.
  std::string instead = {};
  bool is_read = false;     // a path that may be in a bucket
  bool positional = false;  // its name may be omitted, if no other one says the same
  bool repeatable = false;  // may be given several times; each adds a value
  std::int64_t minimum = 0;
  std::int64_t maximum = 0;
  std::vector<std::string> choices = {};
  Canvas canvas = Canvas::kHidden;
  std::optional<Effect> effect = {};  // set for every option of train
  bool is_of_recipe = false;          // --recipe may set it, or it affects a weight update, too
  bool is_for_one_run = false;        // repeat.yaml omits it
  bool may_differ = false;            // between the ranks of a run
  bool is_implied = false;            // its default is treated as given
  bool is_on_first_screen = false;    // `--help` shows it even if it does not show all
  // Whether two texts have the same value. Throws Error if one of them is invalid.
  std::function<bool(const Option&, const std::string&, const std::string&)> same_value = {};
};

struct CommandInfo {
  std::string name = {};
  std::string summary = {};
  std::string usage = {};  // the text after `kiln NAME`
  std::vector<std::string> examples = {};
  std::vector<Option> options = {};
  // Fills the command's struct from the given options. Faults are collected in `given`.
  std::function<Command(Given&)> bind = {};
  // What to do instead of starting several processes of it together, a sentence; empty: nothing.
  std::string instead_of_ranks = {};
};

const std::vector<CommandInfo>& command_table();

// Treats `_` and `-` as equal.
bool same_name(std::string_view a, std::string_view b);

// The one with this name, in which `_` and `-` are equivalent; nullptr if there is none.
const CommandInfo* find_command(std::string_view name);

// `name` excludes the leading dashes; `_` and `-` are equivalent.
const Option* find_option(const CommandInfo& command, std::string_view name);

// Words of other training programs; other_programs.cpp.

// The option of `command` that other programs call `name`, which may be one letter: the name of a
// setting, too. An empty name: Kiln has none. Nothing: nor have they.
std::optional<std::string_view> foreign_option(const CommandInfo& command, std::string_view name);

// The same, or the option that was probably meant by a mistyped `name`.
std::string meant_option(const CommandInfo& command, std::string_view name);

// --name, -n, or another text that begins like an option and not like a negative number.
bool is_dashed(std::string_view word);

// A word with the name of an option or a setting: --lr, --lr=0.1, lr=0.1, -b, -b8.
struct TypedWord {
  std::string name;   // without dashes
  std::string shown;  // for a message
  std::optional<std::string> value = {};
};
std::optional<TypedWord> split_word(const CommandInfo& command, const std::string& word);

// A sentence without its first letter in a capital, "type `kiln train …`.", for the command line
// `words` of another program: its options and settings such as lr=0.1 become those of `command`,
// which stands for the first word. A second sentence names what Kiln has nothing like. Without
// parts of URLs that may be secret.
std::string line_to_type(const CommandInfo& command, const std::vector<std::string>& words);

// What earlier builds had; removed_words.cpp.

// The lists have commas between their items.
struct RemovedWord {
  std::string_view commands;
  std::string_view options;  // without dashes; empty: the commands were removed
  std::string_view value;    // that was removed, # for any number; empty: the options were
  std::string_view usual;    // of a removed option: the values with which a checkpoint resumes
  std::string_view instead;  // a clause

  std::string fate() const { return "was removed; " + std::string(instead); }
};

// The row of a removed option, of one whose `value` was removed, or without an option of a removed
// command; nullptr: none.
const RemovedWord* find_removed(std::string_view command, std::string_view option,
                                std::string_view value = {});

// A clause for each of train's options whose text in a checkpoint has no meaning any more.
std::vector<std::string> removed_settings(const OptionTexts& options);

// Whether two texts of an option have the same value; false if one of them is invalid.
bool is_same_setting(const Option& option, const std::string& a, const std::string& b);

// The options of train whose value differs between two runs, in table order, each with its new text
// and the reason "was flip and is now none". Different spellings of one value (0.10, .1) do not
// count as a change. An option that is missing on one side counts as having its default there.
std::vector<Setting> changed_options(const OptionTexts& before, const OptionTexts& now);

// "1 to 1000000", "auto, or 16 to 2048", "best or last"; empty if any value is allowed.
std::string range_text(const Option& option);

// The first sentence of an option's help, without its full stop.
std::string first_sentence(const std::string& help);

// The option as a row of Boost.Program_options, which reads its words and lays out its help.
void add_row(boost::program_options::options_description& table, const Option& option,
             const std::string& help = "");

std::string general_help();
// The first sentence about each option of a command's first screen, or with `all` everything.
std::string command_help(const CommandInfo& command, bool all);
// The commands and options with this name, otherwise those with these words in their names and
// values, otherwise in their descriptions, otherwise as a part of a word; empty: none.
std::string help_on(const std::string& words);

}  // namespace kiln
