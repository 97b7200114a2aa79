// Option values that a run chose itself because its command left them open. They are logged with
// their reasons in the plan, and written to a configuration file that repeats the run.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_config.h"
#include "record/run_sink.h"

namespace kiln {

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

// Settles RecipeConfig::by_length for a run with so many steps in each epoch; kept_side is that of
// modern_by_length.
void follow_length(TrainConfig& config, std::int64_t steps_per_epoch, int kept_side, int num_ranks);

// The value of every option, with those choices that change what a recorded run was given: --auto
// sets these. `epochs`: of the schedule, if --steps sets it; 0: it does not.
OptionTexts options_in_effect(OptionTexts options, const std::vector<Choice>& choices, int epochs);

// Those of `config` that are given.
OptionTexts given_options(const TrainConfig& config);

// Where the weights given as --weights `given` were found: `path`. A repeated run then needs no
// secrets from a URL, and repeat.yaml has the hash of the file. Empty: there is nothing to say.
std::optional<Choice> weights_choice(const std::string& given, const std::string& path);

// A run's options and choices, for a file that repeats it.
struct RepeatedRun {
  OptionTexts options;  // of `kiln train`: those given, without those that are for one run
  std::vector<Choice> choices;
  std::string why_not_equal = {};  // a clause; empty: a repetition gives the same bits
};

RepeatedRun repeated_run(const TrainConfig& config, std::vector<Choice> choices);

// A file for --config: the options, and the choices, which replace options.
std::string config_text(const RepeatedRun& run);

inline constexpr const char* kRepeatName = "repeat.yaml";

// The contents of repeat.yaml: config_text() under a comment that says how to repeat the run.
std::string repeat_text(const RepeatedRun& run);

// Writes `text()` at the start of a run, again when its length is decided, and at its end. If an
// earlier run's file exists, does not write before the first epoch is done.
std::unique_ptr<RunSink> make_repeat_file(const std::filesystem::path& path,
                                          std::function<std::string()> text);

}  // namespace kiln
