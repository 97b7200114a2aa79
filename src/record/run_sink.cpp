#include "record/run_sink.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "record/picture_file.h"
#include "record/run_file.h"
#include "record/run_summary.h"

namespace kiln {

void RunSink::resume(const RunRecord& so_far) {
  retell(so_far.text, *this);
}

void RunReporter::add(const std::function<std::unique_ptr<RunSink>()>& make,
                      const std::filesystem::path& folder) try {
  sinks_.push_back({.sink = make(), .folder = folder});
} catch (const std::exception& failure) {
  log_.warning(failure.what());
  never_made_.emplace_back(failure.what());
}

void RunReporter::notify(Guarded& guarded, const Call& call, bool is_record) {
  if (!guarded.has_begun) {
    guarded.num_failed += is_record ? 1 : 0;
    return;
  }
  try {
    call(*guarded.sink);
  } catch (const std::exception& failure) {
    if (guarded.num_failed++ > 0) return;
    guarded.first_failure = failure.what();
    const bool is_removed = !guarded.folder.empty() && !is_there(guarded.folder);
    if (!is_removed)
      log_.warning(std::string(guarded.sink->name()) + ": " + guarded.first_failure +
                   " Training continues without it.");
    else if (removed_folders_.insert(guarded.folder).second)
      log_.warning("The folder '" + guarded.folder.string() +
                   "' was removed, with the records and the log of this run. Training continues "
                   "without them.");
  }
}

void RunReporter::notify_all(const Call& call, bool is_record) {
  for (Guarded& guarded : sinks_) notify(guarded, call, is_record);
}

void RunReporter::begin(const Call& call) {
  notify_all(call);
  for (Guarded& guarded : sinks_) guarded.has_begun = guarded.num_failed == 0;
}

void RunReporter::start(RunStart start) {
  run_.start = std::move(start);
  run_.text = run_line(run_.start);
  begin([&](RunSink& sink) { sink.start(run_.start); });
  add_warnings();
}

void RunReporter::resume(RunStart start, const std::string& record_text, Interruption interruption,
                         const std::filesystem::path& pictures) {
  if (!record_text.ends_with('\n'))
    throw Error(ErrorCode::kInvalidDataset, "The run record is truncated.");
  run_ = parse_run(record_text);
  if (const std::string fault = read_pictures(pictures, &run_); !fault.empty()) log_.warning(fault);
  start.time = run_.start.time;
  run_.start = std::move(start);
  run_.text = resumed_text(run_.start, record_text, interruption);
  run_.interruptions.push_back(std::move(interruption));
  begin([&](RunSink& sink) { sink.resume(run_); });
  const std::vector<std::string> recorded = run_.warnings;
  for (const std::string& text : log_.take_warnings())
    if (std::ranges::count(recorded, text) == 0) add_warning(text);
}

std::string RunReporter::record_text() const {
  std::string text = run_.text;
  TextPairs states = run_.sink_states;
  for (const Guarded& guarded : sinks_) {
    const std::string state = guarded.sink->state();
    if (state.empty()) continue;
    std::erase_if(states, [&](const auto& old) { return old.first == guarded.sink->name(); });
    states.emplace_back(guarded.sink->name(), state);
  }
  for (const auto& [name, state] : states) text += state_line(name, state);
  return text;
}

void RunReporter::planned(const PlannedLength& length) {
  add_warnings();
  add_length(run_.start, length);
  run_.text += run_line(length);
  notify_all([&](RunSink& sink) { sink.planned(length); });
}

void RunReporter::step(const StepRecord& step) {
  add_warnings();
  const bool is_first = run_.steps.empty();
  if (is_recorded(step, is_first ? std::nullopt : std::optional(run_.steps.back()))) {
    run_.steps.push_back(step);
    run_.text += run_line(step);
  }
  notify_all([&](RunSink& sink) { sink.step(step); });
}

void RunReporter::add_warnings() {
  for (const std::string& text : log_.take_warnings()) add_warning(text);
}

void RunReporter::add_warning(const std::string& text) {
  run_.warnings.push_back(text);
  run_.text += run_line(text);
  notify_all([&](RunSink& sink) { sink.warning(text); });
}

void RunReporter::epoch(const EpochRecord& epoch, const ValidationDetails* details) {
  add_warnings();
  run_.epochs.push_back(epoch);
  run_.text += run_line(epoch, details);
  if (details != nullptr) run_.details = *details;
  notify_all([&](RunSink& sink) { sink.epoch(epoch, details); });
}

void RunReporter::progress(const StepRecord& timing) {
  notify_all([&](RunSink& sink) { sink.progress(timing); }, /*is_record=*/false);
}

void RunReporter::validating(const StepRecord& at) {
  notify_all([&](RunSink& sink) { sink.validating(at); }, /*is_record=*/false);
}

void RunReporter::add_pictures(PictureList list) {
  run_.details.pictures.push_back(std::move(list));
  notify_all([&](RunSink& sink) { sink.pictures(run_); });
}

void RunReporter::end(RunEnd end) {
  add_warnings();
  run_.end = std::move(end);
  for (Guarded& guarded : sinks_) {
    collect_losses();
    notify(guarded, [&](RunSink& sink) {
      sink.end(run_);
      guarded.has_ended = true;
    });
  }
  collect_losses();
}

// Called again before each sink ends, so that a sink sees what those before it have lost.
void RunReporter::collect_losses() {
  run_.losses = never_made_;
  run_.whole_sinks.clear();
  if (const std::string lost = log_.lost(); !lost.empty()) run_.losses.push_back(lost);
  for (const Guarded& guarded : sinks_) {
    const std::string name{guarded.sink->name()};
    if (guarded.num_failed == 0)
      run_.whole_sinks.push_back(name);
    else
      run_.losses.push_back(name + ": " + plural(guarded.num_failed, "record", "records") +
                            " lost: " + guarded.first_failure);
    if (!guarded.has_ended) continue;
    if (const std::string lost = guarded.sink->lost(); !lost.empty())
      run_.losses.push_back(name + ": " + lost);
  }
}

}  // namespace kiln
