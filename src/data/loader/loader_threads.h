// The threads that load images: one pool for all loaders of a run. Loaders opened earlier are
// served first, so a loader may be opened long before its batches are needed: it uses the time that
// the others leave.
//
// Decoders turn files into pixels. If reading files is slow (a network mount), reader threads fetch
// files in advance, so that decoders do not wait for storage. Any thread may open loaders; the pool
// must outlive them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/timeline.h"
#include "data/image/image.h"
#include "data/loader/folder_watch.h"
#include "data/transform/image_pipeline.h"

namespace kiln {

// The number of threads that decode images.
struct LoaderThreadCount {
  int first = 1;
  int most = 0;  // the maximum for later epochs; 0: does not change
};

// `given` is --loader-threads. If it is not given: on a CPU half of the processors at first and at
// most all of them; for a GPU all but two, which feed it.
LoaderThreadCount choose_loader_threads(int given, int num_processors, bool for_gpu);

class LoaderThreads {
 public:
  // Memory for a batch: [bytes], uninitialized, aligned for any number type.
  using Buffer = std::shared_ptr<std::uint8_t[]>;
  using NewBuffer = std::function<Buffer(std::size_t bytes)>;
  static Buffer ordinary_buffer(std::size_t bytes);

  struct Plan {
    int num_decoders = 1;
    int max_decoders = 0;  // the maximum for adapt(); 0: adapt() changes nothing
    // Files to read ahead of the decoders. 0: none while reads are fast; otherwise kReadAhead, or
    // proportionally more for more than kReaders reader threads.
    int read_ahead = 0;
    int num_readers = 0;  // threads that read ahead; 0: kReaders
    NewBuffer new_buffer = ordinary_buffer;
    // How long to wait for a data folder that does not respond, and who is warned.
    FolderWatch::Limits outage = {};
    FolderWatch::Warn warn = {};
    // Records image loading and reading ahead; must outlive the pool.
    Timeline* timeline = nullptr;
  };
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
  explicit LoaderThreads(Plan plan);
  ~LoaderThreads();  // all loaders must be closed

  int num_decoders() const;
  int max_decoders() const;

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
  void note_read(double seconds, std::size_t bytes);

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

  std::mutex& mutex();
  void add(BatchSource& source);
  // Returns when no thread uses the source any more. `waited_seconds`: how long its batches were
  // waited for.
  void remove(BatchSource& source, double waited_seconds = 0);
  // Batch memory is passed on from loader to loader, so that it does not grow with their number.
  // Locked.
  Buffer take_buffer(std::size_t bytes);
  void give_buffer_back(std::size_t bytes, Buffer buffer);
  // The same for the memory of files that were read ahead.
  std::string take_file_buffer();
  void give_file_buffer_back(std::string buffer);
  // Whether the source may read another file ahead. Locked.
  bool may_read_ahead(const BatchSource& source) const;
  // Adds to the count of memory used for read-ahead. Locked.
  void count_read_ahead(std::ptrdiff_t bytes);
  // Memory used for read-ahead, over all loaders.
  std::size_t read_ahead_bytes();

  // Call these when there may be new work, with or without the mutex.
  void wake_decoders();
  void wake_readers();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
