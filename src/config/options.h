// Every command and every option, once: parsing, range checks, help, and the output of `kiln
// describe` (component files, schemas, the tables of docs/) are generated from this table. It does
// not say what runs a command (see commands/commands.h), so it stays free of LibTorch and MPI.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.h"

namespace kiln {

class Binder;

enum class ValueKind {
  kPath,
  kInteger,
  kAutoOrInteger,
  kNumber,          // greater than `minimum`, at most `maximum`
  kNumberFrom,      // from `minimum` to `maximum`
  kChoice,          // one of `choices`
  kChoiceOrNumber,  // one of `choices`, or a number as kNumber's
  kModelName,       // one of `choices`; another name is error 159
  kBoolean,         // True or False, in any case
  kSwitch,          // as kBoolean, or without a value: True
  kFlag,            // never with a value
  kShare,           // greater than 0, at most 1: 0.95 or 95%
  kAllowance,       // a count, or a share such as 1%
  kEvery,           // counts of epochs, steps and time, such as 1epoch,10min
  kAugment,         // a set of operations, such as crop,flip (base/augment_set.h)
  kDuration,        // a time with its unit, such as 30min
  kImageSize,       // a length in pixels, or a height and a width: 256 or [224,160]
  kTrainingSize,    // auto, an integer, or two that it grows from and to, such as 128:224
  kCropSize,        // auto, larger or an integer
};

// What it means for a run that resumes if this option differs from before.
enum class Effect {
  kFree,    // nothing
  kBits,    // results may differ in their last bits
  kResult,  // another result: the run is refused
};

// An option's role on a designer's canvas, for the component files.
enum class Canvas {
  kHidden,
  kParameter,
  kDataIn,  // a folder of images, or of what is done to them
  kDataOut,
  kModelIn,  // a folder that holds a model
  kModelOut,
  kFileIn,       // one file, optional
  kFolderIn,     // a folder, optional
  kModelFileIn,  // one file that holds a model
  kCheckpoints,  // a folder that outlasts a job which is stopped; only Azure ML has such outputs
  kRanksOfHost,  // auto, if nothing else starts the ranks
  kKubeflowRun,  // the JSON text in which Kubeflow says where the artifact `metrics` goes
};

struct Option {
  std::string name;          // without dashes
  std::string value_name;    // as help shows it: DIR, N, auto|N
  std::string default_text;  // empty: none
  std::string unit;
  std::string group;
  std::string help;
  ValueKind kind = ValueKind::kPath;
  bool required = false;
  // Names the option that may be given in its place, but not beside it; empty: none. For a required
  // one.
  std::string instead = {};
  bool positional = false;  // its name may be omitted
  bool repeatable = false;  // may be given several times, each adding a value
  std::int64_t minimum = 0;
  std::int64_t maximum = 0;
  std::vector<std::string> choices = {};
  Canvas canvas = Canvas::kHidden;
  std::optional<Effect> effect = {};  // every option of train has one
};

struct CommandInfo {
  std::string name;
  std::string summary;
  std::string usage;  // what follows `kiln NAME`
  std::vector<Option> options;
  // Fills its struct from the given options; faults are collected in the binder.
  Command (*bind)(Binder& binder) = nullptr;
};

const std::vector<CommandInfo>& command_table();

// Treats `_` and `-` as equal.
bool same_name(std::string_view a, std::string_view b);

// nullptr if there is none.
const CommandInfo* find_command(std::string_view name);
// A step of pipelines, as designers see it: a command, with the places and defaults that its
// options have in this form. Most are called as their command; train has a second one.
struct ComponentInfo {
  std::string name;     // "fine-tune"
  std::string summary;  // of the component
  CommandInfo command;  // `kiln NAME` of it is run
};

// One for each command that has an output on the canvas, then the others.
const std::vector<ComponentInfo>& component_table();

// nullptr if there is none.
const ComponentInfo* find_component(std::string_view name);

// `name` without dashes; `_` and `-` are equal.
const Option* find_option(const CommandInfo& command, std::string_view name);

// The option of `command` that a mistyped `name`, or another trainer's, stands for; empty: none.
std::string meant_option(const CommandInfo& command, std::string_view name);

// An option of train whose value differs between two runs.
struct ChangedOption {
  std::string name, before, now;
  Effect effect = Effect::kResult;
};

// In table order. Other spellings of one value (0.10, .1) are no change; an option that only one
// of them has counts as its default in the other.
std::vector<ChangedOption> changed_options(const OptionTexts& before, const OptionTexts& now);

// "1 to 1000000", "auto, or 16 to 2048", "best or last"; empty if any value is allowed.
std::string range_text(const Option& option);

}  // namespace kiln
