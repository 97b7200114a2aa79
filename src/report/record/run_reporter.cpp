#include "report/record/run_sink.h"

#include <exception>
#include <utility>

#include "base/text.h"

namespace kiln {

void RunReporter::add(const std::function<std::unique_ptr<RunSink>()>& make) {
  try {
    sinks_.push_back({.sink = make(), .first_failure = {}});
  } catch (const std::exception& failure) {
    log_.warning(failure.what());
    never_made_.emplace_back(failure.what());
  }
}

template <typename Call>
void RunReporter::notify(Guarded& guarded, Call&& call, bool is_record) {
  if (!guarded.has_begun) {
    guarded.num_failed += is_record ? 1 : 0;
    return;
  }
  try {
    call(*guarded.sink);
  } catch (const std::exception& failure) {
    if (guarded.num_failed++ > 0) return;
    guarded.first_failure = failure.what();
    log_.warning(std::string(guarded.sink->name()) + ": " + failure.what() +
                 " Training continues without it.");
  }
}

template <typename Call>
void RunReporter::notify_all(Call&& call, bool is_record) {
  for (Guarded& guarded : sinks_) notify(guarded, call, is_record);
}

void RunReporter::start(RunStart start) {
  run_.start = std::move(start);
  notify_all([&](RunSink& sink) { sink.start(run_.start); });
  for (Guarded& guarded : sinks_) guarded.has_begun = guarded.num_failed == 0;
  note_warnings();
}

void RunReporter::step(const StepRecord& step) {
  note_warnings();
  run_.steps.push_back(step);
  notify_all([&](RunSink& sink) { sink.step(step); });
}

void RunReporter::note_warnings() {
  for (const std::string& text : log_.take_warnings()) {
    run_.warnings.push_back(text);
    notify_all([&](RunSink& sink) { sink.warning(text); });
  }
}

void RunReporter::epoch(const EpochRecord& epoch, const ValidationDetails* details) {
  note_warnings();
  run_.epochs.push_back(epoch);
  if (details != nullptr) run_.details = *details;
  notify_all([&](RunSink& sink) { sink.epoch(epoch, details); });
}

void RunReporter::progress(const StepRecord& timing) {
  notify_all([&](RunSink& sink) { sink.progress(timing); }, /*is_record=*/false);
}

void RunReporter::validating(const StepRecord& at) {
  notify_all([&](RunSink& sink) { sink.validating(at); }, /*is_record=*/false);
}

void RunReporter::end(RunEnd end) {
  note_warnings();
  run_.end = std::move(end);
  for (Guarded& guarded : sinks_) {
    note_losses();
    notify(
        guarded, [&](RunSink& sink) { sink.end(run_); }, /*is_record=*/true);
    guarded.has_ended = true;
  }
  note_losses();
}

// Updated one by one: a sink sees how those before it ended.
void RunReporter::note_losses() {
  run_.losses = never_made_;
  run_.whole_sinks.clear();
  if (const std::string lost = log_.lost(); !lost.empty()) run_.losses.push_back(lost);
  for (const Guarded& guarded : sinks_) {
    const std::string name{guarded.sink->name()};
    if (guarded.num_failed == 0) run_.whole_sinks.push_back(name);
    if (guarded.num_failed > 0)
      run_.losses.push_back(name + formatted(": %d records lost: ", guarded.num_failed) +
                            guarded.first_failure);
    if (!guarded.has_ended) continue;
    if (const std::string lost = guarded.sink->lost(); !lost.empty())
      run_.losses.push_back(name + ": " + lost);
  }
}

}  // namespace kiln
