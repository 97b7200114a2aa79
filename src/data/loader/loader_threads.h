// The threads that load images: one fixed pool for all loaders of a run. Loaders opened earlier are
// served first, so a loader may be opened long before its batches are needed: it uses the time that
// the others leave.
//
// Decoders turn files into pixels. If reading a file takes long (a network mount), readers fetch
// files ahead, so that no decoder waits for storage. Any thread may open loaders; the pool must
// outlive them.
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

// The threads that decode images.
struct LoaderThreadCount {
  int first = 1;
  int most = 0;  // after later epochs; 0: always as at first
};

// --loader-threads, or, where none are given: on a CPU half of the processors at first and all at
// most; for a GPU all but two, which feed it.
LoaderThreadCount choose_loader_threads(int given, int num_processors, bool for_gpu);

class LoaderThreads {
 public:
  // Memory for a batch: [bytes], uninitialized, aligned for any number type.
  using Buffer = std::shared_ptr<std::uint8_t[]>;
  using NewBuffer = std::function<Buffer(std::size_t bytes)>;
  static Buffer ordinary_buffer(std::size_t bytes);

  struct Plan {
    int num_decoders = 1;
    int most_decoders = 0;  // that adapt() may choose; 0: it changes nothing
    // Files to read ahead of the decoders. 0: none while reads are fast, otherwise kReadAhead, or
    // in proportion for more than kReaders readers.
    int read_ahead = 0;
    int num_readers = 0;  // threads that read ahead; 0: kReaders
    NewBuffer new_buffer = ordinary_buffer;
    // What a data folder that does not answer is given, and who hears of it.
    FolderWatch::Limits outage = {};
    FolderWatch::Warn warn = {};
    // Where images are noted that are loaded, and files that are read ahead; it outlives the pool.
    Timeline* timeline = nullptr;
  };
  static constexpr int kReadAhead = 64;
  // Readers wait for storage and need no core.
  static constexpr int kReaders = 16;
  // Limits the memory of files that were read ahead and not yet decoded, over all loaders; loaders
  // waiting their turn use at most half of it.
  static constexpr std::size_t kReadAheadBytes = std::size_t{64} << 20;
  // What each decoder keeps at most: a decoded image and a file. Larger ones need extra memory.
  static constexpr std::size_t kDecoderBytes = 2 * kWholeImageBytes;

  // Throws std::system_error where the system has no thread left.
  explicit LoaderThreads(Plan plan);
  ~LoaderThreads();  // all loaders must be closed

  int num_decoders() const;
  int most_decoders() const;

  // What decoders did in a time of `seconds`: theirs at work, added up, and those that readers of
  // batches waited.
  struct Use {
    double seconds = 0, busy_seconds = 0, waited_seconds = 0;
  };
  // How many decoders of at most `most` should follow `now` of them: twice as many if batches were
  // waited for, else twice what was needed on average, and never more than now.
  static int decoders_after(const Use& use, int now, int most);
  // Changes the number of decoders by their use since the last call. Called between epochs. Where
  // the system has no thread left, the existing ones continue.
  void adapt();

  // The current read-ahead.
  int read_ahead() const;
  // A decoder read a file of `bytes` bytes itself.
  void note_read(double seconds, std::size_t bytes);

  // Memory that a decoder thread reuses from image to image, for any loader.
  struct Decoder {
    ImagePipeline path;
    std::vector<std::uint8_t> pixels;  // for images that become floats
    std::string bytes;                 // the file, read by this thread or by a reader
  };

  // The interface of loaders to the pool. Functions marked "locked" are called with mutex() held,
  // the others without.
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

  // Of all loaders that read below `root`; valid as long as the pool.
  FolderWatch& watch_of(const std::filesystem::path& root);

  std::mutex& mutex();
  void add(BatchSource& source);
  // Returns when no thread uses the source, whose batches were waited for so long.
  void remove(BatchSource& source, double waited_seconds = 0);
  // Batch memory is passed from loader to loader, so that it does not grow with their number.
  // Locked.
  Buffer take_buffer(std::size_t bytes);
  void give_buffer_back(std::size_t bytes, Buffer buffer);
  // The same for the memory of files read ahead.
  std::string take_file_buffer();
  void give_file_buffer_back(std::string buffer);
  // Whether the source may read another file ahead. Locked.
  bool may_read_ahead(const BatchSource& source) const;
  // Adds to the memory used by read-ahead. Locked.
  void count_read_ahead(std::ptrdiff_t bytes);
  // Over all loaders.
  std::size_t read_ahead_bytes();

  // There may be new work. Locked or not.
  void wake_decoders();
  void wake_readers();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
