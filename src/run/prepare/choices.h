// What a run has found for options that its command left open: logged with its reasons in the plan,
// and written to a configuration file that repeats the run.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/settings.h"
#include "record/run_sink.h"

namespace kiln {

// Adds a line to the plan for what has been found and is in no other line.
void add_found_lines(const Settings& settings, TextPairs& plan);

// The value of every option that was asked for; of those that change what a recorded run was given,
// as it was found. `epochs`: of the schedule, if --steps sets it; 0: it does not.
OptionTexts texts_in_effect(const Settings& asked, const Settings& settings, int epochs);

// Where the weights given as --weights `given` were found: `path`. A repeated run then needs no
// secrets from a URL, and repeat.yaml has the hash of the file. Empty: there is nothing to say.
std::optional<Setting> found_weights(const std::string& given, const std::string& path);

// A file for --config: what has been found, and of the others those that are given and kept.
std::string config_text(const Settings& settings,
                        const std::function<bool(const Setting&)>& is_kept);

inline constexpr const char* kRepeatName = "repeat.yaml";

// The contents of repeat.yaml: config_text(), without options that are for one run, under a comment
// that says how to repeat the run. `why_not_equal`: a clause; empty: a repetition gives the same
// bits.
std::string repeat_text(const Settings& settings, const std::string& why_not_equal);

// Writes `text()` at the start of a run, again when its length is decided, and at its end. If an
// earlier run's file exists, does not write before the first epoch is done.
std::unique_ptr<RunSink> make_repeat_file(const std::filesystem::path& path,
                                          std::function<std::string()> text);

}  // namespace kiln
