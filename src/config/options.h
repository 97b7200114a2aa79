// Every command and every option, once: parsing, range checks, help, and what `kiln describe`
// prints (component files, schemas, tables of docs/) are made from this table. What runs a
// command is no part of it (commands/commands.h), so that it stays free of LibTorch and MPI.
#pragma once

#include <cstdint>
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
  kChoice,          // one of `choices`
  kChoiceOrNumber,  // one of `choices`, or a number as kNumber's
  kModelName,       // one of `choices`; another name is error 159
  kBoolean,         // True or False, in any case
  kSwitch,          // as kBoolean, or without a value: True
  kFlag,            // never with a value
  kAllowance,       // a count, or a share such as 1%
};

// What an option is on a designer's canvas, for the component files.
enum class Canvas {
  kHidden,
  kParameter,
  kDataIn,  // a folder of images
  kDataOut,
  kModelIn,  // a folder that holds a model
  kModelOut,
  kFileIn,       // one file, which may be left out
  kRanksOfHost,  // where nobody else starts the ranks: auto
  kKubeflowRun,  // the JSON text with which Kubeflow tells where the artifact `metrics` goes
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
  bool positional = false;  // may also be given without its name
  bool repeatable = false;  // may be given several times; then several values
  std::int64_t minimum = 0;
  std::int64_t maximum = 0;
  std::vector<std::string> choices = {};
  Canvas canvas = Canvas::kHidden;
};

struct CommandInfo {
  std::string name;
  std::string summary;
  std::string usage;  // what follows `kiln NAME`
  std::vector<Option> options;
  // Its struct from what was given; faults are collected in the binder.
  Command (*bind)(Binder& binder) = nullptr;
};

const std::vector<CommandInfo>& command_table();

// `_` and `-` are the same.
bool same_name(std::string_view a, std::string_view b);

// nullptr when there is none.
const CommandInfo* find_command(std::string_view name);
// `name` without dashes; `_` and `-` are the same.
const Option* find_option(const CommandInfo& command, std::string_view name);

// "1 to 1000000", "auto, or 16 to 2048", "best or last"; empty when anything goes.
std::string range_text(const Option& option);

}  // namespace kiln
