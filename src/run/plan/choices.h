// What a run chose itself, where its command leaves the choice: logged with its reason in the first
// lines, and written as a configuration file that repeats the run.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "report/record/run_sink.h"

namespace kiln {

struct TrainingJob;

struct Choice {
  std::string option;     // without dashes
  std::string value;      // as text of the option; empty: left to choose itself alike again
  std::string reason;     // in few words
  bool has_line = false;  // a line of the plan shows it already
};

// Whoever chooses adds it here; a later choice of the same option replaces the earlier one.
void choose(std::vector<Choice>& choices, Choice choice);

// Adds a line to the plan for each choice that has none yet.
void add_choice_lines(const std::vector<Choice>& choices, TextPairs& plan);

// Adds the choices that prepare() has made. A collective.
void add_choices(TrainingJob& job);

// `path`: where the file or folder is that --weights `given` names, on rank 0. A repeated run reads
// the same bytes, and needs no secret of a URL.
void add_weights_choice(const std::string& given, const std::string& path, TrainingJob& job);

// Every option, with what --auto has settled.
OptionTexts options_in_effect(const TrainingJob& job);

// A file for --config: the options that differ from their defaults, and what was chosen. It names
// no output, and neither limit nor number of checkpoints.
std::string config_text(const TrainConfig& config, const std::vector<Choice>& choices);

inline constexpr const char* kRepeatName = "repeat.yaml";

// As config_text(), with the epochs and steps that were made: this repeats the run.
std::string repeat_text(const TrainConfig& config, const std::vector<Choice>& choices);

// Writes `text()` at the start of a run, again when its length is decided, and at its end; where an
// earlier run's file is, not before the first epoch.
std::unique_ptr<RunSink> make_repeat_file(const std::filesystem::path& path,
                                          std::function<std::string()> text);

}  // namespace kiln
