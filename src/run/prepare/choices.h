// Option values that a run chose itself because its command left them open. They are logged with
// their reasons in the plan, and written to a configuration file that repeats the run.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/run_config.h"
#include "record/run_sink.h"

namespace kiln {

struct TrainingJob;

struct Choice {
  std::string option;  // without dashes
  std::string value;   // as given on the command line; empty: a repeated run makes the same choice
  std::string reason;  // a few words
  bool has_line = false;  // already shown in a line of the plan
};

// Adds a choice; replaces an earlier one of the same option.
void choose(std::vector<Choice>& choices, Choice choice);

// Adds a line to the plan for each choice without one.
void add_choice_lines(const std::vector<Choice>& choices, TextPairs& plan);

// Adds the choices made by prepare(). A collective.
void add_choices(TrainingJob& job);

// Records where the weights given as --weights `given` were found: `path`, on rank 0. A repeated
// run then needs no secrets from a URL, and repeat.yaml has the hash of the file.
void add_weights_choice(const std::string& given, const std::string& path, TrainingJob& job);

// The value of every option, including those set by --auto.
OptionTexts options_in_effect(const TrainingJob& job);

// A file for --config: the options that differ from their defaults, and the choices. Leaves out
// outputs, the time limit, and the options for checkpoints.
std::string config_text(const TrainConfig& config, const std::vector<Choice>& choices);

inline constexpr const char* kRepeatName = "repeat.yaml";

// The contents of repeat.yaml: config_text() under a comment that says how to repeat the run.
std::string repeat_text(const TrainConfig& config, const std::vector<Choice>& choices);

// Writes `text()` at the start of a run, again when its length is decided, and at its end. If an
// earlier run's file exists, does not write before the first epoch is done.
std::unique_ptr<RunSink> make_repeat_file(const std::filesystem::path& path,
                                          std::function<std::string()> text);

}  // namespace kiln
