// The threads that load images: one pool for all loaders of a run. Loaders opened earlier are
// served first, so a loader may be opened long before its batches are needed: it uses the time that
// the others leave.
//
// Decoders turn files into pixels. If reading files is slow (a network mount), reader threads fetch
// files in advance, so that decoders do not wait for storage. Any thread may open loaders; the pool
// must outlive them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/system.h"
#include "base/timeline.h"
#include "data/dataset/dataset.h"
#include "data/image/image.h"
#include "data/transform/image_pipeline.h"

namespace kiln {

// Reading of this image was given up during an outage, because of a stop signal or because its
// loader closed. It is not known to be bad.
class ReadCutShort : public ImageFault {
 public:
  ReadCutShort() : ImageFault("not read before the run ended") {}
};

struct OutageLimits {
  std::chrono::milliseconds wait = std::chrono::seconds(60);  // how long to wait in an outage
  std::chrono::milliseconds between_looks = std::chrono::seconds(1);
};

// Reads the images of one data folder, or of the archives in it, which stay open, so that an outage
// of the storage does not turn them into bad images: all threads wait together until the folder
// responds again, up to a limit, once per outage. Thread-safe.
class FolderWatch {
 public:
  // Receives warnings of one sentence each, from any thread.
  using Warn = std::function<void(const std::string&)>;

  FolderWatch(std::filesystem::path root, OutageLimits limits, Warn warn)
      : root_(std::move(root)), limits_(limits), warn_(std::move(warn)) {}

  // As read_image_bytes(), but if that fails and the storage does not respond either (the folder,
  // or for an image that is there but cannot be read another image), waits until it does and reads
  // again. When the wait reaches its limit the image counts as bad, and no further waiting is done
  // until the storage has responded again. Throws ReadCutShort on a stop signal, and once `closing`
  // is set. Returns the seconds that the last attempt took.
  double read(const Dataset& set, std::size_t i, std::string& buffer,
              const std::atomic<bool>& closing);

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { kAnswers, kAwaited, kGivenUp };

  bool answers(const Dataset& set, std::size_t i, bool is_lost, const std::atomic<bool>& closing);
  void look(const Dataset& set, std::size_t i, bool is_lost, std::unique_lock<std::mutex>& lock);

  const std::filesystem::path root_;
  const OutageLimits limits_;
  const Warn warn_;

  std::mutex mutex_;
  std::condition_variable looked_;
  std::atomic<State> state_ = State::kAnswers;    // written under the mutex
  std::size_t looks_begun_ = 0, looks_done_ = 0;  // at most one in progress
  Clock::time_point next_look_, outage_began_;
};

// The number of threads that decode images.
struct LoaderThreadCount {
  int first = 1;
  int most = 0;  // the maximum for later epochs; 0: does not change
};

// `given` is --loader-threads. If it is not given: on a CPU half of the processors at first and at
// most all of them; for a GPU all but two, which feed it.
LoaderThreadCount choose_loader_threads(int given, int num_processors, bool for_gpu);

// Memory for a batch: [bytes], uninitialized, aligned for any number type.
using BatchBuffer = std::shared_ptr<std::uint8_t[]>;
using NewBuffer = std::function<BatchBuffer(std::size_t bytes)>;
BatchBuffer ordinary_buffer(std::size_t bytes);

struct ThreadPlan {
  int num_decoders = 1;
  int max_decoders = 0;  // the maximum for adapt(); 0: adapt() changes nothing
  int read_ahead = 0;    // files to read ahead of the decoders; 0: kReadAhead once reads are slow
  NewBuffer new_buffer = ordinary_buffer;
  // How long to wait for a data folder that does not respond, and who is warned.
  OutageLimits outage = {};
  FolderWatch::Warn warn = {};
  // Records image loading and reading ahead; must outlive the pool.
  Timeline* timeline = nullptr;
};

class LoaderThreads {
 public:
  static constexpr int kReadAhead = 64;
  // Reader threads mostly wait for storage and need no core of their own.
  static constexpr int kReaders = 16;
  // Limit on the memory of files that were read ahead but not decoded yet, over all loaders.
  // Loaders that wait for their turn use at most half of it.
  static constexpr std::size_t kReadAheadBytes = std::size_t{64} << 20;
  // The most memory that each decoder keeps: a decoded image and a file. Larger ones need
  // additional memory.
  static constexpr std::size_t kDecoderBytes = 2 * kWholeImageBytes;

  // Throws std::system_error if the system cannot create more threads.
  explicit LoaderThreads(ThreadPlan plan);
  ~LoaderThreads();  // all loaders must be closed

  int num_decoders() const;
  int max_decoders() const { return std::max({1, plan_.num_decoders, plan_.max_decoders}); }

  // Use of the decoders during `seconds`: `busy_seconds` is their total working time,
  // `waited_seconds` the time that consumers waited for batches.
  struct Use {
    double seconds = 0, busy_seconds = 0, waited_seconds = 0;
  };
  // How many decoders (at most `most`) should succeed the `now` current ones: twice as many if
  // consumers had to wait for batches; otherwise twice the average need, but not more than now.
  static int decoders_after(const Use& use, int now, int most);
  // Adapts the number of decoders to their use since the last call. Call it between epochs. If the
  // system cannot create more threads, continues with the existing ones.
  void adapt();

  // The current read-ahead.
  int read_ahead() const;
  // Tells the pool that a decoder read a file of `bytes` bytes itself.
  void add_read(double seconds, std::size_t bytes);

  // Memory that a decoder thread reuses from image to image, for any loader.
  struct Decoder {
    ImagePipeline path;
    std::vector<std::uint8_t> pixels;  // for images that become floats
    std::string bytes;                 // the file, read by this thread or by a reader
  };

  // The interface of loaders to the pool. Functions marked "locked" are called with mutex() held,
  // the others without it.
  class BatchSource {
   public:
    virtual ~BatchSource() = default;

   private:
    friend class LoaderThreads;
    virtual bool claim_image(std::size_t* position) = 0;  // locked; false: none at the moment
    virtual void load(std::size_t position, Decoder& decoder) = 0;
    virtual void loaded(std::size_t position, std::exception_ptr failure) = 0;  // locked
    virtual bool claim_read(std::size_t* position) = 0;  // locked; false: none at the moment
    virtual void read(std::size_t position) = 0;         // does not throw
    int num_busy_ = 0;                                   // threads inside, guarded by mutex()
  };

  // The FolderWatch shared by all loaders that read below `root`; valid as long as the pool.
  FolderWatch& watch_of(const std::filesystem::path& root);

  std::mutex& mutex() { return mutex_; }
  void add(BatchSource& source);
  // Returns when no thread uses the source any more. `waited_seconds`: how long its batches were
  // waited for.
  void remove(BatchSource& source, double waited_seconds = 0);
  // Batch memory is passed on from loader to loader, so that it does not grow with their number.
  // Locked.
  BatchBuffer take_buffer(std::size_t bytes);
  void give_buffer_back(std::size_t bytes, BatchBuffer buffer);
  // The same for the memory of files that were read ahead.
  std::string take_file_buffer();
  void give_file_buffer_back(std::string buffer);
  // Whether the source may read another file ahead. Locked.
  bool may_read_ahead(const BatchSource& source) const;
  // Adds to the count of memory used for read-ahead. Locked.
  void count_read_ahead(std::ptrdiff_t bytes) { ahead_bytes_ += static_cast<std::size_t>(bytes); }
  // Memory used for read-ahead, over all loaders.
  std::size_t read_ahead_bytes();

  // Call these when there may be new work, with or without the mutex.
  void wake_decoders() { decoders_wake_.notify_all(); }
  void wake_readers() { readers_wake_.notify_all(); }

 private:
  // The largest memory that any decoder has needed so far, except for huge files and images. All
  // decoders reserve it, so that memory is stable once every image has been seen once, not once
  // every decoder has seen the largest.
  std::size_t need_pixels_ = 0, need_file_ = 0;

  void stop();
  void start_decoders();
  void start_readers();
  void decode(int index);
  void read(int index);
  void note(const char* thread, int index, const char* what, Timeline::Time begin) const;
  BatchSource* claim(bool (BatchSource::*take)(std::size_t*), std::size_t* position) const;
  void leave(BatchSource& source);

  const ThreadPlan plan_;
  std::atomic<double> read_seconds_ = 0;  // smoothed
  std::atomic<bool> reads_are_slow_ = false;

  mutable std::mutex mutex_;
  std::condition_variable decoders_wake_, spares_wake_, readers_wake_, somebody_left_;
  int num_active_ = 1;  // decoders; the others sleep
  Use use_;             // since `use_watch_` was last read
  Stopwatch use_watch_;
  std::vector<BatchSource*> sources_;  // in order of service
  std::map<std::filesystem::path, FolderWatch> watches_;
  std::multimap<std::size_t, BatchBuffer> buffers_;
  std::vector<std::string> file_buffers_;
  std::size_t ahead_bytes_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> decoders_, readers_;  // last, so that they stop first
};

}  // namespace kiln
