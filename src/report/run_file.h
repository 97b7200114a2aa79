// `metrics.jsonl`: a run, a line an event, written through, so that it is whole up to the moment a
// run is killed; and read back into the run it came from.
//
// Every line is a JSON object with "event": "start", "step", "warning", "epoch" or "end", and
// "time" in Unix seconds. Numbers that are not finite are the strings "NaN", "Infinity" and
// "-Infinity".
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "report/run_sink.h"

namespace kiln {

inline constexpr const char* kRunFileName = "metrics.jsonl";

// Begins the file anew. Throws std::runtime_error.
std::unique_ptr<RunSink> make_run_file(const std::filesystem::path& path);

// Adds what one line tells. Throws std::exception for a line that no run wrote.
void add_run_line(std::string_view line, RunRecord* run);

// The run in `text`; a last line that is cut short is passed over, unknown keys and events are
// too. Throws Error kInvalidDataset, with the line's number, for text that is no such file.
RunRecord parse_run(std::string_view text);

// Of a file, or of the folder that holds it (a --log-path). Throws Error.
RunRecord read_run(const std::filesystem::path& path);

}  // namespace kiln
