#include "base/timeline.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace kiln {
namespace {

using Microseconds = std::chrono::duration<double, std::micro>;

// The sort key of a track: the tracks in kFirst come first, then the others. Shorter names come
// before longer ones, so that "thread 2" precedes "thread 10".
std::tuple<std::size_t, std::size_t, std::string> place_of(const std::string& track) {
  constexpr std::array<std::string_view, 3> kFirst = {Timeline::kSteps, Timeline::kDevice,
                                                      Timeline::kSums};
  const auto found = std::find(kFirst.begin(), kFirst.end(), track);
  return {static_cast<std::size_t>(found - kFirst.begin()), track.size(), track};
}

// Returns a metadata event, which sets the name or the position of a process or a thread.
std::string meta_event(const char* what, int rank, std::size_t thread, const std::string& value) {
  return formatted(R"({"name":"%s","ph":"M","pid":%d,"tid":%zu,"args":{%s}})", what, rank, thread,
                   value.c_str());
}

}  // namespace

void Timeline::add(std::string_view track, std::string name, Time begin, Time end) {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  if (spans_.size() == kMaxSpans) {
    ++num_dropped_;
    return;
  }
  auto found = tracks_.find(track);
  if (found == tracks_.end()) found = tracks_.emplace(track, tracks_.size()).first;
  spans_.push_back({found->second, std::move(name), begin, end});
}

std::string Timeline::json(int rank) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, std::size_t>> tracks(tracks_.begin(), tracks_.end());
  std::ranges::sort(tracks, {}, [](const auto& track) { return place_of(track.first); });
  std::string text = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_spans\":" +
                     std::to_string(num_dropped_) + "},\"traceEvents\":[\n" +
                     meta_event("process_name", rank, 0, formatted(R"("name":"rank %d")", rank));
  for (std::size_t place = 0; place < tracks.size(); ++place) {
    const auto& [name, thread] = tracks[place];
    text += ",\n" + meta_event("thread_name", rank, thread, "\"name\":\"" + name + "\"");
    text += ",\n" + meta_event("thread_sort_index", rank, thread,
                               "\"sort_index\":" + std::to_string(place));
  }
  for (const Span& span : spans_)
    text += ",\n" + formatted(R"({"name":"%s","ph":"X","pid":%d,"tid":%zu,"ts":%.3f,"dur":%.3f})",
                              span.name.c_str(), rank, span.track,
                              Microseconds(span.begin.time_since_epoch()).count(),
                              Microseconds(span.end - span.begin).count());
  return text + "\n]}\n";
}

}  // namespace kiln
