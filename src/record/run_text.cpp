// The lines of a run's record: formats events as text, and parses them.
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "record/metrics.h"
#include "record/run_file.h"
#include "record/run_json.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxLineValues = 20'000'000;    // 4 per cell of the largest confusion matrix
constexpr std::uint64_t kFreeRecordBytes = 16 << 20;  // beyond the bytes of the file

Json metrics_json(const std::vector<Metric>& metrics) {
  Json object = Json::object();
  for (const Metric& metric : metrics) object[metric.name] = as_json(metric.value);
  return object;
}

std::string line_of(const char* event, const Json& fields) {
  Json line = {{"event", event}};
  line.update(fields);
  return json_text(line) + "\n";
}

bool is_line_of(std::string_view line, const std::string& event) {
  return line.starts_with(R"({"event":")" + event + '"');
}

// Returns what is wrong with a line, as a clause.
std::string fault_text(const std::exception& failure) {
  if (dynamic_cast<const JsonFault*>(&failure) != nullptr)
    return std::string("it ") + failure.what();
  if (dynamic_cast<const Json::exception*>(&failure) != nullptr)
    return "a field is missing or has the wrong type";
  return failure.what();
}

// Adds a line to the run and returns its event. Ignores unknown events, which newer versions may
// write.
std::string add_run_line(std::string_view text, RunRecord* run) {
  const Json line = parse_ordered_json(text, kMaxLineValues);
  auto event = line.at("event").get<std::string>();
  if (event == "start") {
    *run = {};
    from_json(line, run->start);
  }
  if (event == "length") {
    PlannedLength length;
    from_json(line, length);
    note_length(run->start, length);
  }
  if (event == "step") from_json(line, run->steps.emplace_back());
  if (event == "warning") run->warnings.push_back(line.at("text").get<std::string>());
  if (event == "epoch") {
    from_json(line, run->epochs.emplace_back());
    if (line.contains("judgement")) from_json(line.at("judgement"), run->details);
  }
  if (event == "resume") from_json(line, run->interruptions.emplace_back());
  if (event == "sink")
    run->sink_states.emplace_back(line.at("name").get<std::string>(),
                                  line.at("state").get<std::string>());
  if (event == "end" || event == "usage") from_json(line, run->end);
  return event;
}

std::uint64_t record_bytes(const RunRecord& run) {
  return run.steps.size() * sizeof(StepRecord) + run.epochs.size() * sizeof(EpochRecord) +
         run.warnings.size() * sizeof(std::string) +
         run.interruptions.size() * sizeof(Interruption) +
         run.sink_states.size() * sizeof(TextPairs::value_type);
}

// Calls `visit` with the offset and the text of each complete line. Returns the offset of the
// incomplete last line.
template <typename Visit>
std::size_t for_each_line(std::string_view text, Visit&& visit) {
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1)
    visit(begin, text.substr(begin, end - begin));
  return begin;
}

}  // namespace

std::string run_line(const RunStart& start) {
  return line_of("start", as_json(start));
}

std::string run_line(const PlannedLength& length) {
  return line_of("length", as_json(length));
}

std::string run_line(const StepRecord& step) {
  Json line = as_json(step);
  line["metrics"] = metrics_json(step_metrics(step));
  return line_of("step", line);
}

std::string run_line(const std::string& warning) {
  return line_of("warning", {{"text", warning}});
}

std::string run_line(const EpochRecord& epoch, const ValidationDetails* details) {
  Json line = as_json(epoch);
  line["metrics"] = metrics_json(epoch_metrics(epoch));
  if (details != nullptr) line["judgement"] = as_json(*details);
  return line_of("epoch", line);
}

std::string run_line(const RunEnd& end) {
  return line_of("end", as_json(end));
}

std::string usage_line(const RunEnd& so_far) {
  return line_of("usage", {{"saved_epoch", so_far.saved_epoch},
                           {"start_to_first_step_seconds", so_far.start_to_first_step_seconds},
                           {"total_seconds", so_far.total_seconds},
                           {"peak_memory_bytes", so_far.peak_memory_bytes},
                           {"peak_device_bytes", so_far.peak_device_bytes}});
}

std::string state_line(const std::string& sink, const std::string& state) {
  return line_of("sink", {{"name", sink}, {"state", state}});
}

std::string resumed_text(const RunStart& start, std::string_view record_text,
                         const Interruption& interruption) {
  std::string text = run_line(start);
  for_each_line(record_text, [&](std::size_t /*offset*/, std::string_view line) {
    for (const char* event : {"start", "usage", "sink"})
      if (is_line_of(line, event)) return;
    text.append(line).append("\n");
  });
  return text + line_of("resume", as_json(interruption));
}

std::size_t add_run_lines(std::string_view text, std::uint64_t offset, RunRecord* run) {
  return for_each_line(text, [&](std::size_t begin, std::string_view line) {
    try {
      add_run_line(line, run);
      if (record_bytes(*run) > kFreeRecordBytes + offset + begin + line.size())
        throw std::invalid_argument("its lines are too short for a training run");
    } catch (const std::exception& failure) {
      throw Error(ErrorCode::kInvalidDataset,
                  "The line at byte " + std::to_string(offset + begin) +
                      " was not written by a training run: " + fault_text(failure) + ".");
    }
  });
}

void require_start(const RunRecord& run) {
  if (run.start.time == 0)
    throw Error(
        ErrorCode::kInvalidDataset,
        "It has no \"start\" line: it is not a run record, or the run has not started yet.");
}

RunRecord parse_run(std::string_view text) {
  RunRecord run;
  add_run_lines(text, 0, &run);
  require_start(run);
  return run;
}

void note_length(RunStart& start, const PlannedLength& length) {
  start.num_epochs = length.num_epochs;
  for (auto& [label, text] : start.plan)
    if (label == kTimeLimitLabel) {
      text = length.reason;
      return;
    }
  start.plan.emplace_back(kTimeLimitLabel, length.reason);
}

void retell(std::string_view text, RunSink& sink) {
  for_each_line(text, [&](std::size_t /*offset*/, std::string_view line) {
    RunRecord one;
    const std::string event = add_run_line(line, &one);
    if (event == "start") sink.start(one.start);
    if (event == "step") sink.step(one.steps.back());
    if (event == "warning") sink.warning(one.warnings.back());
    if (event == "epoch")
      sink.epoch(one.epochs.back(), one.details.epoch > 0 ? &one.details : nullptr);
  });
}

}  // namespace kiln
