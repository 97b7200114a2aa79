#include "data/loader/loader_threads.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/system.h"
#include "base/text.h"

namespace kiln {
namespace {

// In seconds. If reads wait longer than this on average, they get threads of their own; a read from
// the page cache takes a twentieth of it. Time spent copying the bytes does not count as waiting.
constexpr double kSlowRead = 400e-6;
constexpr double kCopiedBytesPerSecond = 2e9;
constexpr double kSmoothing = 1.0 / 16;
constexpr int kAheadPerReader = LoaderThreads::kReadAhead / LoaderThreads::kReaders;
// As a share of an epoch. Not 0, since the first batch after a start or a pause is always waited
// for.
constexpr double kAcceptedWait = 0.02;
// How many times as many decoders as needed on average: images differ, and are needed in bursts.
constexpr double kDecodersForNeed = 2;

// The largest memory that any decoder has needed so far, except for huge files and images. All
// decoders reserve it, so that memory is stable once every image has been seen once, not once every
// decoder has seen the largest.
struct Need {
  std::size_t pixels = 0, file = 0;

  void give(LoaderThreads::Decoder& decoder) const {
    decoder.path.reserve(pixels);
    if (decoder.bytes.capacity() < file) std::string(file, '\0').swap(decoder.bytes);
  }
  void learn(const LoaderThreads::Decoder& decoder) {
    pixels = std::max(pixels, std::min(decoder.path.capacity(), kWholeImageBytes));
    file = std::max(file, std::min(decoder.bytes.capacity(), kWholeImageBytes));
  }
};

}  // namespace

LoaderThreadCount choose_loader_threads(int given, int num_processors, bool for_gpu) {
  if (given > 0) return {given, 0};
  if (for_gpu) return {std::clamp(num_processors - 2, 1, 32), 0};
  return {std::clamp(num_processors / 2, 1, 16), std::clamp(num_processors, 1, 32)};
}

struct LoaderThreads::State {
  explicit State(Plan a_plan) : plan(std::move(a_plan)) {}
  ~State();

  void start_decoders();
  void decode(int index);
  void read(int index);
  void note(const char* thread, int index, const char* what, Timeline::Time begin) const;
  BatchSource* claim(bool (BatchSource::*take)(std::size_t*), std::size_t* position) const;
  void leave(BatchSource& source);
  void start_readers();

  const Plan plan;
  std::atomic<double> read_seconds = 0;  // smoothed
  std::atomic<bool> reads_are_slow = false;

  std::mutex mutex;
  std::condition_variable decoders_wake, spares_wake, readers_wake, somebody_left;
  int num_active = 1;  // decoders; the others sleep
  Use use;             // since `use_watch` was last read
  Stopwatch use_watch;
  std::vector<BatchSource*> sources;  // in order of service
  std::map<std::filesystem::path, FolderWatch> watches;
  std::multimap<std::size_t, Buffer> buffers;
  std::vector<std::string> file_buffers;
  std::size_t ahead_bytes = 0;
  Need need;
  bool stopping = false;
  std::vector<std::jthread> decoders, readers;  // last, so that they stop first
};

// The threads are joined after this, including those already running if another could not be
// created.
LoaderThreads::State::~State() {
  {
    const std::scoped_lock lock(mutex);
    stopping = true;
  }
  decoders_wake.notify_all();
  spares_wake.notify_all();
  readers_wake.notify_all();
}

LoaderThreads::BatchSource* LoaderThreads::State::claim(bool (BatchSource::*take)(std::size_t*),
                                                        std::size_t* position) const {
  for (BatchSource* source : sources) {
    if (!(source->*take)(position)) continue;
    ++source->num_busy_;
    return source;
  }
  return nullptr;
}

void LoaderThreads::State::leave(BatchSource& source) {
  if (--source.num_busy_ == 0) somebody_left.notify_all();
}

void LoaderThreads::State::start_decoders() {
  while (static_cast<int>(decoders.size()) < num_active)
    decoders.emplace_back([this, index = static_cast<int>(decoders.size())] { decode(index); });
}

void LoaderThreads::State::decode(int index) {
  Decoder decoder;
  std::unique_lock lock(mutex);
  while (!stopping) {
    if (index >= num_active) {
      spares_wake.wait(lock);
      continue;
    }
    std::size_t position = 0;
    BatchSource* source = claim(&BatchSource::claim_image, &position);
    if (source == nullptr) {
      decoders_wake.wait(lock);
      continue;
    }
    const Need known = need;
    lock.unlock();
    readers_wake.notify_one();
    const Stopwatch watch;
    const Timeline::Time begin = Timeline::Clock::now();
    std::exception_ptr failure;
    try {
      known.give(decoder);
      source->load(position, decoder);
    } catch (...) {
      failure = std::current_exception();
    }
    const double seconds = watch.seconds();
    note("loader thread", index, "load an image", begin);
    lock.lock();
    use.busy_seconds += seconds;
    need.learn(decoder);
    source->loaded(position, failure);
    leave(*source);
  }
}

// Records what the `index`-th thread of its kind did, if the timeline is on.
void LoaderThreads::State::note(const char* thread, int index, const char* what,
                                Timeline::Time begin) const {
  if (plan.timeline == nullptr || !plan.timeline->is_on()) return;
  plan.timeline->add(formatted("%s %d", thread, index + 1), what, begin, Timeline::Clock::now());
}

void LoaderThreads::State::read(int index) {
  std::unique_lock lock(mutex);
  while (!stopping) {
    std::size_t position = 0;
    BatchSource* source = claim(&BatchSource::claim_read, &position);
    if (source == nullptr) {
      readers_wake.wait(lock);
      continue;
    }
    lock.unlock();
    const Timeline::Time begin = Timeline::Clock::now();
    source->read(position);
    note("reading thread", index, "read a file", begin);
    lock.lock();
    leave(*source);
  }
}

void LoaderThreads::State::start_readers() {
  const int most = plan.num_readers > 0 ? plan.num_readers : kReaders;
  const int wanted = plan.read_ahead > 0 ? std::min(plan.read_ahead, most) : most;
  for (int i = 0; i < wanted; ++i) readers.emplace_back([this, i] { read(i); });
}

LoaderThreads::LoaderThreads(Plan plan) : state_(std::make_unique<State>(std::move(plan))) {
  if (state_->plan.read_ahead > 0) state_->start_readers();
  const std::scoped_lock lock(state_->mutex);
  state_->num_active = std::max(1, state_->plan.num_decoders);
  state_->start_decoders();
}

LoaderThreads::~LoaderThreads() = default;

int LoaderThreads::num_decoders() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->num_active;
}

int LoaderThreads::max_decoders() const {
  return std::max({1, state_->plan.num_decoders, state_->plan.max_decoders});
}

int LoaderThreads::decoders_after(const Use& use, int now, int most) {
  if (use.waited_seconds > kAcceptedWait * use.seconds) return std::min(2 * now, most);
  const double needed = std::ceil(kDecodersForNeed * use.busy_seconds / use.seconds);
  return static_cast<int>(std::clamp(needed, 1.0, static_cast<double>(now)));
}

void LoaderThreads::adapt() {
  if (state_->plan.max_decoders == 0) return;
  {
    const std::scoped_lock lock(state_->mutex);
    state_->use.seconds = state_->use_watch.lap();
    const Use use = std::exchange(state_->use, {});
    state_->num_active = decoders_after(use, state_->num_active, max_decoders());
    try {
      state_->start_decoders();
    } catch (const std::system_error&) {
      state_->num_active = static_cast<int>(state_->decoders.size());
    }
  }
  state_->spares_wake.notify_all();
}

int LoaderThreads::read_ahead() const {
  if (state_->plan.read_ahead > 0) return state_->plan.read_ahead;
  if (!state_->reads_are_slow) return 0;
  return std::max(kReadAhead, kAheadPerReader * state_->plan.num_readers);
}

void LoaderThreads::note_read(double seconds, std::size_t bytes) {
  if (state_->plan.read_ahead > 0 || state_->reads_are_slow) return;
  const double waited = seconds - static_cast<double>(bytes) / kCopiedBytesPerSecond;
  const double before = state_->read_seconds;
  const double after = before + (waited - before) * kSmoothing;
  state_->read_seconds = after;
  if (after < kSlowRead) return;
  const std::scoped_lock lock(state_->mutex);
  if (state_->reads_are_slow.exchange(true)) return;
  try {
    state_->start_readers();
  } catch (const std::system_error&) {  // decoders read the files that no reader has claimed
  }
}

FolderWatch& LoaderThreads::watch_of(const std::filesystem::path& root) {
  const std::scoped_lock lock(state_->mutex);
  return state_->watches.try_emplace(root, root, state_->plan.outage, state_->plan.warn)
      .first->second;
}

std::mutex& LoaderThreads::mutex() {
  return state_->mutex;
}

void LoaderThreads::add(BatchSource& source) {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->sources.push_back(&source);
  }
  wake_decoders();
  wake_readers();
}

void LoaderThreads::remove(BatchSource& source, double waited_seconds) {
  std::unique_lock lock(state_->mutex);
  state_->use.waited_seconds += waited_seconds;
  std::erase(state_->sources, &source);
  state_->somebody_left.wait(lock, [&] { return source.num_busy_ == 0; });
}

LoaderThreads::Buffer LoaderThreads::take_buffer(std::size_t bytes) {
  if (auto kept = state_->buffers.extract(bytes)) return std::move(kept.mapped());
  if (bytes > std::numeric_limits<std::ptrdiff_t>::max()) throw std::bad_alloc();
  return state_->plan.new_buffer(bytes);
}

void LoaderThreads::give_buffer_back(std::size_t bytes, Buffer buffer) {
  state_->buffers.emplace(bytes, std::move(buffer));
}

LoaderThreads::Buffer LoaderThreads::ordinary_buffer(std::size_t bytes) {
  constexpr std::align_val_t kCacheLine{64};
  return {static_cast<std::uint8_t*>(::operator new[](bytes, kCacheLine)),
          [](std::uint8_t* buffer) { ::operator delete[](buffer, kCacheLine); }};
}

std::string LoaderThreads::take_file_buffer() {
  std::string buffer;
  if (!state_->file_buffers.empty()) {
    buffer = std::move(state_->file_buffers.back());
    state_->file_buffers.pop_back();
  }
  try {
    if (buffer.capacity() < state_->need.file) std::string(state_->need.file, '\0').swap(buffer);
  } catch (const std::bad_alloc&) {  // the read of the file will fail likewise and be reported
  }
  return buffer;
}

void LoaderThreads::give_file_buffer_back(std::string buffer) {
  if (buffer.capacity() <= kWholeImageBytes) state_->file_buffers.push_back(std::move(buffer));
}

bool LoaderThreads::may_read_ahead(const BatchSource& source) const {
  const bool is_first = state_->sources.front() == &source;
  return state_->ahead_bytes < (is_first ? kReadAheadBytes : kReadAheadBytes / 2);
}

void LoaderThreads::count_read_ahead(std::ptrdiff_t bytes) {
  state_->ahead_bytes += static_cast<std::size_t>(bytes);
}

std::size_t LoaderThreads::read_ahead_bytes() {
  const std::scoped_lock lock(state_->mutex);
  return state_->ahead_bytes;
}

void LoaderThreads::wake_decoders() {
  state_->decoders_wake.notify_all();
}

void LoaderThreads::wake_readers() {
  state_->readers_wake.notify_all();
}

}  // namespace kiln
