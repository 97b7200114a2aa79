#include "data/loader/loader_threads.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <limits>
#include <new>
#include <system_error>

#include "base/files.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"

namespace kiln {
namespace {

// In seconds. If reads wait longer than this on average, they get threads of their own; a read from
// the page cache takes a twentieth of it. Time spent copying the bytes does not count as waiting.
constexpr double kSlowRead = 400e-6;
constexpr double kCopiedBytesPerSecond = 2e9;
constexpr double kSmoothing = 1.0 / 16;
// As a share of an epoch. Not 0, since the first batch after a start or a pause is always waited
// for.
constexpr double kAcceptedWait = 0.02;
// How many times as many decoders as needed on average: images differ, and are needed in bursts.
constexpr double kDecodersForNeed = 2;

// The storage may come back between a failed read and the look at the root, so the read is
// repeated.
constexpr int kReadAttempts = 3;
constexpr auto kBetweenQuestions = std::chrono::milliseconds(50);

// The errors that mean that the storage is at fault, not the file. ENOENT and ENOTDIR are among
// them because the root existed when the run began.
constexpr std::array kOutages = {
    EIO,       ESTALE, ENOTCONN,     EHOSTDOWN,  EHOSTUNREACH, ENETUNREACH, ETIMEDOUT, ECONNABORTED,
    EREMOTEIO, ENODEV, ECONNREFUSED, ECONNRESET, ESHUTDOWN,    ENXIO,       ENOTDIR,   ENOENT};

bool is_outage(int error) {
  return std::find(kOutages.begin(), kOutages.end(), error) != kOutages.end();
}

bool archive_answers(const OpenFile& file) {
  char byte = 0;
  try {
    file.read_at(0, &byte, 1);
    return true;
  } catch (const std::system_error& fault) {
    return !is_outage(fault.code().value());
  }
}

// Opens the folder, since a file system may answer stat() from its cache.
bool folder_answers(const std::filesystem::path& root) {
  const Descriptor folder(
      ::open(root.empty() ? "." : root.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  return (folder.number() >= 0 && ::fstat(folder.number(), &info) == 0) || !is_outage(errno);
}

// Reads from another image, since a mount may answer for its root although its server is gone, and
// the page cache for the beginning of an archive.
bool another_answers(const Dataset& set, std::size_t i) {
  const std::size_t count = set.samples.size();
  std::string byte;
  try {
    read_first_bytes(set, (i + count / 2) % count, 1, byte);
  } catch (const UnreadableImage& fault) {
    return !is_outage(fault.error);
  } catch (const std::exception&) {  // it is bad, or memory or descriptors are exhausted
  }
  return true;
}

}  // namespace

LoaderThreadCount choose_loader_threads(int given, int num_processors, bool for_gpu) {
  if (given > 0) return {given, 0};
  if (for_gpu) return {std::clamp(num_processors - 2, 1, 32), 0};
  return {std::clamp(num_processors / 2, 1, 16), std::clamp(num_processors, 1, 32)};
}

// The threads are joined after this, including those already running if another could not be
// created.
void LoaderThreads::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  decoders_wake_.notify_all();
  spares_wake_.notify_all();
  readers_wake_.notify_all();
}

LoaderThreads::BatchSource* LoaderThreads::claim(bool (BatchSource::*take)(std::size_t*),
                                                 std::size_t* position) const {
  for (BatchSource* source : sources_) {
    if (!(source->*take)(position)) continue;
    ++source->num_busy_;
    return source;
  }
  return nullptr;
}

void LoaderThreads::leave(BatchSource& source) {
  if (--source.num_busy_ == 0) somebody_left_.notify_all();
}

void LoaderThreads::start_decoders() {
  while (static_cast<int>(decoders_.size()) < num_active_)
    decoders_.emplace_back([this, index = static_cast<int>(decoders_.size())] { decode(index); });
}

void LoaderThreads::decode(int index) {
  Decoder decoder;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (index >= num_active_) {
      spares_wake_.wait(lock);
      continue;
    }
    std::size_t position = 0;
    BatchSource* source = claim(&BatchSource::claim_image, &position);
    if (source == nullptr) {
      decoders_wake_.wait(lock);
      continue;
    }
    const std::size_t pixels = need_pixels_, file = need_file_;
    lock.unlock();
    readers_wake_.notify_one();
    const Stopwatch watch;
    const Timeline::Time begin = Timeline::Clock::now();
    std::exception_ptr failure;
    try {
      decoder.path.reserve(pixels);
      if (decoder.bytes.capacity() < file) std::string(file, '\0').swap(decoder.bytes);
      source->load(position, decoder);
    } catch (...) {
      failure = std::current_exception();
    }
    const double seconds = watch.seconds();
    note("loader thread", index, "load an image", begin);
    lock.lock();
    use_.busy_seconds += seconds;
    need_pixels_ = std::max(need_pixels_, std::min(decoder.path.capacity(), kWholeImageBytes));
    need_file_ = std::max(need_file_, std::min(decoder.bytes.capacity(), kWholeImageBytes));
    source->loaded(position, failure);
    leave(*source);
  }
}

// Records what the `index`-th thread of its kind did, if the timeline is on.
void LoaderThreads::note(const char* thread, int index, const char* what,
                         Timeline::Time begin) const {
  if (plan_.timeline == nullptr || !plan_.timeline->is_on()) return;
  plan_.timeline->add(formatted("%s %d", thread, index + 1), what, begin, Timeline::Clock::now());
}

void LoaderThreads::read(int index) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    std::size_t position = 0;
    BatchSource* source = claim(&BatchSource::claim_read, &position);
    if (source == nullptr) {
      readers_wake_.wait(lock);
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

void LoaderThreads::start_readers() {
  const int wanted = plan_.read_ahead > 0 ? std::min(plan_.read_ahead, kReaders) : kReaders;
  for (int i = 0; i < wanted; ++i) readers_.emplace_back([this, i] { read(i); });
}

LoaderThreads::LoaderThreads(ThreadPlan plan) : plan_(std::move(plan)) {
  try {
    if (plan_.read_ahead > 0) start_readers();
    const std::scoped_lock lock(mutex_);
    num_active_ = std::max(1, plan_.num_decoders);
    start_decoders();
  } catch (...) {
    stop();
    throw;
  }
}

LoaderThreads::~LoaderThreads() {
  stop();
}

int LoaderThreads::num_decoders() const {
  const std::scoped_lock lock(mutex_);
  return num_active_;
}

int LoaderThreads::decoders_after(const Use& use, int now, int most) {
  if (use.waited_seconds > kAcceptedWait * use.seconds) return std::min(2 * now, most);
  const double needed = std::ceil(kDecodersForNeed * use.busy_seconds / use.seconds);
  return static_cast<int>(std::clamp(needed, 1.0, static_cast<double>(now)));
}

void LoaderThreads::adapt() {
  if (plan_.max_decoders == 0) return;
  {
    const std::scoped_lock lock(mutex_);
    use_.seconds = use_watch_.lap();
    const Use use = std::exchange(use_, {});
    num_active_ = decoders_after(use, num_active_, max_decoders());
    try {
      start_decoders();
    } catch (const std::system_error&) {
      num_active_ = static_cast<int>(decoders_.size());
    }
  }
  spares_wake_.notify_all();
}

int LoaderThreads::read_ahead() const {
  if (plan_.read_ahead > 0) return plan_.read_ahead;
  return reads_are_slow_ ? kReadAhead : 0;
}

void LoaderThreads::add_read(double seconds, std::size_t bytes) {
  if (plan_.read_ahead > 0 || reads_are_slow_) return;
  const double waited = seconds - static_cast<double>(bytes) / kCopiedBytesPerSecond;
  const double before = read_seconds_;
  const double after = before + (waited - before) * kSmoothing;
  read_seconds_ = after;
  if (after < kSlowRead) return;
  const std::scoped_lock lock(mutex_);
  if (reads_are_slow_.exchange(true)) return;
  try {
    start_readers();
  } catch (const std::system_error&) {  // decoders read the files that no reader has claimed
  }
}

FolderWatch& LoaderThreads::watch_of(const std::filesystem::path& root) {
  const std::scoped_lock lock(mutex_);
  return watches_.try_emplace(root, root, plan_.outage, plan_.warn).first->second;
}

void LoaderThreads::add(BatchSource& source) {
  {
    const std::scoped_lock lock(mutex_);
    sources_.push_back(&source);
  }
  wake_decoders();
  wake_readers();
}

void LoaderThreads::remove(BatchSource& source, double waited_seconds) {
  std::unique_lock lock(mutex_);
  use_.waited_seconds += waited_seconds;
  std::erase(sources_, &source);
  somebody_left_.wait(lock, [&] { return source.num_busy_ == 0; });
}

BatchBuffer LoaderThreads::take_buffer(std::size_t bytes) {
  if (auto kept = buffers_.extract(bytes)) return std::move(kept.mapped());
  if (bytes > std::numeric_limits<std::ptrdiff_t>::max()) throw std::bad_alloc();
  return plan_.new_buffer(bytes);
}

void LoaderThreads::give_buffer_back(std::size_t bytes, BatchBuffer buffer) {
  buffers_.emplace(bytes, std::move(buffer));
}

BatchBuffer ordinary_buffer(std::size_t bytes) {
  constexpr std::align_val_t kCacheLine{64};
  return {static_cast<std::uint8_t*>(::operator new[](bytes, kCacheLine)),
          [](std::uint8_t* buffer) { ::operator delete[](buffer, kCacheLine); }};
}

std::string LoaderThreads::take_file_buffer() {
  std::string buffer;
  if (!file_buffers_.empty()) {
    buffer = std::move(file_buffers_.back());
    file_buffers_.pop_back();
  }
  try {
    if (buffer.capacity() < need_file_) std::string(need_file_, '\0').swap(buffer);
  } catch (const std::bad_alloc&) {  // the read of the file will fail likewise and be reported
  }
  return buffer;
}

void LoaderThreads::give_file_buffer_back(std::string buffer) {
  if (buffer.capacity() <= kWholeImageBytes) file_buffers_.push_back(std::move(buffer));
}

bool LoaderThreads::may_read_ahead(const BatchSource& source) const {
  const bool is_first = sources_.front() == &source;
  return ahead_bytes_ < (is_first ? kReadAheadBytes : kReadAheadBytes / 2);
}

std::size_t LoaderThreads::read_ahead_bytes() {
  const std::scoped_lock lock(mutex_);
  return ahead_bytes_;
}

double FolderWatch::read(const Dataset& set, std::size_t i, std::string& buffer,
                         const std::atomic<bool>& closing) {
  for (int attempt = 1;; ++attempt) {
    const Stopwatch watch;
    try {
      read_image_bytes(set, i, buffer);
    } catch (const ImageFault& fault) {
      const auto* unreadable = dynamic_cast<const UnreadableImage*>(&fault);
      const bool is_lost = unreadable != nullptr && is_outage(unreadable->error);
      if (attempt == kReadAttempts || !answers(set, i, is_lost, closing)) throw;
      continue;
    }
    const double took = watch.seconds();
    if (state_ == State::kGivenUp) answers(set, i, /*is_lost=*/false, closing);
    return took;
  }
}

// Waits until the storage responds, according to a look that began after the call. False if the
// wait has reached its limit. `is_lost`: the image itself failed as in an outage. Throws
// ReadCutShort.
bool FolderWatch::answers(const Dataset& set, std::size_t i, bool is_lost,
                          const std::atomic<bool>& closing) {
  std::unique_lock lock(mutex_);
  const std::size_t looks_before = looks_begun_;
  for (;;) {
    const bool is_due = Clock::now() >= next_look_;
    if (state_ == State::kGivenUp && !is_due) return false;
    if (is_due && looks_begun_ == looks_done_) look(set, i, is_lost, lock);
    if (looks_done_ > looks_before && state_ != State::kAwaited) return state_ == State::kAnswers;
    if (closing || stop_signal() != 0) throw ReadCutShort();
    looked_.wait_for(lock, kBetweenQuestions);
  }
}

void FolderWatch::look(const Dataset& set, std::size_t i, bool is_lost,
                       std::unique_lock<std::mutex>& lock) {
  ++looks_begun_;
  lock.unlock();
  const ArchiveMember* member = set.samples.member(i);
  const bool answered = (member != nullptr ? archive_answers(set.archives[member->archive].file)
                                           : folder_answers(root_)) &&
                        (!is_lost || another_answers(set, i));
  lock.lock();
  looks_done_ = looks_begun_;
  const Clock::time_point now = Clock::now();
  next_look_ = answered ? now : now + limits_.between_looks;
  const State before = state_;
  if (answered) {
    state_ = State::kAnswers;
  } else if (before == State::kAnswers) {
    state_ = State::kAwaited;
    outage_began_ = now;
  } else if (before == State::kAwaited && now - outage_began_ >= limits_.wait) {
    state_ = State::kGivenUp;
  }
  looked_.notify_all();
  if (state_ == before || !warn_) return;
  const std::chrono::duration<double> waited = now - outage_began_, most = limits_.wait;
  warn_("data folder '" + root_.string() + "'" +
        (answered ? formatted(" is responding again after %.0f s", waited.count())
         : state_ == State::kAwaited
             ? formatted(" is not responding: waiting up to %.0f s", most.count())
             : formatted(" did not respond for %.0f s: images that cannot be read count as bad",
                         most.count())));
}

}  // namespace kiln
