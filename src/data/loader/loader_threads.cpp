#include "data/loader/loader_threads.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <new>
#include <thread>
#include <vector>

namespace kiln {
namespace {

// A read that waits longer is worth a thread of its own: a page-cached file takes a twentieth. What
// its bytes take to copy is not waiting.
constexpr double kSlowRead = 400e-6;
constexpr double kCopiedBytesPerSecond = 2e9;
constexpr double kSmoothing = 1.0 / 16;
// They wait for storage and need no core.
constexpr int kMostReaders = 16;

// What the decoder that needed most has needed, of files and images that are not huge. All get it
// then, so that memory is level once each image was met, not once each decoder has met the largest.
struct Need {
  std::size_t pixels = 0, file = 0;

  void give(LoaderTeam::Decoder& decoder) const {
    decoder.path.make_room(pixels);
    if (decoder.bytes.capacity() < file) std::string(file, '\0').swap(decoder.bytes);
  }
  void learn(const LoaderTeam::Decoder& decoder) {
    pixels = std::max(pixels, std::min(decoder.path.room(), kRoomForWhole));
    file = std::max(file, std::min(decoder.bytes.capacity(), kRoomForWhole));
  }
};

}  // namespace

struct LoaderTeam::State {
  explicit State(Plan a_plan) : plan(std::move(a_plan)) {}

  void decode();
  void read();
  Job* claim(bool (Job::*take)(std::size_t*), std::size_t* position) const;
  void leave(Job& job);
  void start_readers();

  const Plan plan;
  std::atomic<double> read_seconds = 0;  // smoothed
  std::atomic<bool> reads_are_slow = false;

  std::mutex mutex;
  std::condition_variable decoders_wake, readers_wake, somebody_left;
  std::vector<Job*> jobs;  // the first is served first
  std::multimap<std::size_t, Room> rooms;
  std::vector<std::string> file_rooms;
  std::size_t ahead_bytes = 0;
  Need need;
  bool stopping = false;
  std::vector<std::jthread> decoders, readers;  // last, so that they end first
};

LoaderTeam::Job* LoaderTeam::State::claim(bool (Job::*take)(std::size_t*),
                                          std::size_t* position) const {
  for (Job* job : jobs) {
    if (!(job->*take)(position)) continue;
    ++job->num_busy_;
    return job;
  }
  return nullptr;
}

void LoaderTeam::State::leave(Job& job) {
  if (--job.num_busy_ == 0) somebody_left.notify_all();
}

void LoaderTeam::State::decode() {
  Decoder decoder;
  std::unique_lock lock(mutex);
  while (!stopping) {
    std::size_t position = 0;
    Job* job = claim(&Job::claim_image, &position);
    if (job == nullptr) {
      decoders_wake.wait(lock);
      continue;
    }
    const Need known = need;
    lock.unlock();
    if (!readers.empty()) readers_wake.notify_one();
    std::exception_ptr failure;
    try {
      known.give(decoder);
      job->load(position, decoder);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    need.learn(decoder);
    job->loaded(position, failure);
    leave(*job);
  }
}

void LoaderTeam::State::read() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    std::size_t position = 0;
    Job* job = claim(&Job::claim_read, &position);
    if (job == nullptr) {
      readers_wake.wait(lock);
      continue;
    }
    lock.unlock();
    job->read(position);
    lock.lock();
    leave(*job);
  }
}

void LoaderTeam::State::start_readers() {
  const int wanted = std::min(plan.read_ahead > 0 ? plan.read_ahead : kReadAhead, kMostReaders);
  for (int i = 0; i < wanted; ++i) readers.emplace_back([this] { read(); });
}

LoaderTeam::LoaderTeam(Plan plan) : state_(std::make_unique<State>(std::move(plan))) {
  if (state_->plan.read_ahead > 0) state_->start_readers();
  for (int i = 0; i < num_decoders(); ++i)
    state_->decoders.emplace_back([state = state_.get()] { state->decode(); });
}

LoaderTeam::~LoaderTeam() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->stopping = true;
  }
  wake_decoders();
  wake_readers();
}

int LoaderTeam::num_decoders() const {
  return std::max(1, state_->plan.num_decoders);
}

int LoaderTeam::read_ahead() const {
  if (state_->plan.read_ahead > 0) return state_->plan.read_ahead;
  return state_->reads_are_slow ? kReadAhead : 0;
}

void LoaderTeam::note_read(double seconds, std::size_t bytes) {
  if (state_->plan.read_ahead > 0 || state_->reads_are_slow) return;
  const double waited = seconds - static_cast<double>(bytes) / kCopiedBytesPerSecond;
  const double before = state_->read_seconds;
  const double after = before + (waited - before) * kSmoothing;
  state_->read_seconds = after;
  if (after < kSlowRead) return;
  const std::scoped_lock lock(state_->mutex);
  if (!state_->reads_are_slow.exchange(true)) state_->start_readers();
}

std::mutex& LoaderTeam::mutex() {
  return state_->mutex;
}

void LoaderTeam::add(Job& job) {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->jobs.push_back(&job);
  }
  wake_decoders();
  wake_readers();
}

void LoaderTeam::remove(Job& job) {
  std::unique_lock lock(state_->mutex);
  std::erase(state_->jobs, &job);
  state_->somebody_left.wait(lock, [&] { return job.num_busy_ == 0; });
}

LoaderTeam::Room LoaderTeam::take_room(std::size_t bytes) {
  if (auto kept = state_->rooms.extract(bytes)) return std::move(kept.mapped());
  if (bytes > std::numeric_limits<std::ptrdiff_t>::max()) throw std::bad_alloc();
  return state_->plan.new_room(bytes);
}

void LoaderTeam::give_room_back(std::size_t bytes, Room room) {
  state_->rooms.emplace(bytes, std::move(room));
}

LoaderTeam::Room LoaderTeam::ordinary_room(std::size_t bytes) {
  constexpr std::align_val_t kCacheLine{64};
  return {static_cast<std::uint8_t*>(::operator new[](bytes, kCacheLine)),
          [](std::uint8_t* room) { ::operator delete[](room, kCacheLine); }};
}

std::string LoaderTeam::take_file_room() {
  std::string room;
  if (!state_->file_rooms.empty()) {
    room = std::move(state_->file_rooms.back());
    state_->file_rooms.pop_back();
  }
  try {
    if (room.capacity() < state_->need.file) std::string(state_->need.file, '\0').swap(room);
  } catch (const std::bad_alloc&) {  // who reads the file meets that again, and can tell
  }
  return room;
}

void LoaderTeam::give_file_room_back(std::string room) {
  if (room.capacity() <= kRoomForWhole) state_->file_rooms.push_back(std::move(room));
}

bool LoaderTeam::may_read_ahead(const Job& job) const {
  const bool is_first = state_->jobs.front() == &job;
  return state_->ahead_bytes < (is_first ? kReadAheadBytes : kReadAheadBytes / 2);
}

void LoaderTeam::count_read_ahead(std::ptrdiff_t bytes) {
  state_->ahead_bytes += static_cast<std::size_t>(bytes);
}

std::size_t LoaderTeam::read_ahead_bytes() {
  const std::scoped_lock lock(state_->mutex);
  return state_->ahead_bytes;
}

void LoaderTeam::wake_decoders() {
  state_->decoders_wake.notify_all();
}

void LoaderTeam::wake_readers() {
  state_->readers_wake.notify_all();
}

}  // namespace kiln
