// The threads that load images: one fixed pool for all loaders of a run. Loaders that were opened
// earlier are served first, so a loader may be opened long before its batches are wanted: it gets
// the time that the others leave.
//
// Decoders turn files into pixels. Where reading a file takes long (a network mount), readers fetch
// the bytes ahead of them, so that no decoder waits for a disk. Any thread may open loaders; the
// pool must outlive them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "data/transform/image_pipeline.h"

namespace kiln {

class LoaderThreads {
 public:
  // Memory for a batch: [bytes], not set to zero, at a place that suits numbers of any type.
  using Buffer = std::shared_ptr<std::uint8_t[]>;
  using NewBuffer = std::function<Buffer(std::size_t bytes)>;
  static Buffer ordinary_buffer(std::size_t bytes);

  struct Plan {
    int num_decoders = 1;
    // Files that are read ahead of the decoders. 0: none as long as reads take little, then
    // kReadAhead.
    int read_ahead = 0;
    NewBuffer new_buffer = ordinary_buffer;
  };
  static constexpr int kReadAhead = 64;
  // The memory of what is read ahead and not yet decoded, of all loaders together, stops growing
  // here; loaders that wait their turn fill no more than half of it.
  static constexpr std::size_t kReadAheadBytes = std::size_t{64} << 20;
  // What each decoder keeps at most, a decoded image and a file; what is larger comes on top.
  static constexpr std::size_t kDecoderBytes = 2 * kWholeImageBytes;

  // Throws std::system_error where the system has no thread left.
  explicit LoaderThreads(Plan plan);
  ~LoaderThreads();  // when no loader is open any more

  int num_decoders() const;
  // How far to read ahead now.
  int read_ahead() const;
  // A decoder has read a file of so many bytes for itself.
  void note_read(double seconds, std::size_t bytes);

  // What a decoder's thread keeps from one image to the next, of whatever loader.
  struct Decoder {
    ImagePipeline path;
    std::vector<std::uint8_t> pixels;  // of an image that becomes floats
    std::string bytes;                 // of the file that it, or a reader for it, has read
  };

  // For loaders: what the pool asks of them. Functions marked "locked" are called with mutex()
  // held, the others without.
  class BatchSource {
   public:
    virtual ~BatchSource() = default;

   private:
    friend class LoaderThreads;
    virtual bool claim_image(std::size_t* position) = 0;  // locked; false: none now
    virtual void load(std::size_t position, Decoder& decoder) = 0;
    virtual void loaded(std::size_t position, std::exception_ptr failure) = 0;  // locked
    virtual bool claim_read(std::size_t* position) = 0;  // locked; false: none now
    virtual void read(std::size_t position) = 0;         // throws nothing
    int num_busy_ = 0;                                   // threads inside, guarded by mutex()
  };

  std::mutex& mutex();
  void add(BatchSource& source);
  // Returns when no thread is inside the source.
  void remove(BatchSource& source);
  // Memory for batches goes from loader to loader, so that it does not grow with their number.
  // Locked.
  Buffer take_buffer(std::size_t bytes);
  void give_buffer_back(std::size_t bytes, Buffer buffer);
  // Likewise memory for a file that is read ahead.
  std::string take_file_buffer();
  void give_file_buffer_back(std::string buffer);
  // Whether another file may be read ahead for the source. Locked.
  bool may_read_ahead(const BatchSource& source) const;
  // What is read ahead takes so many bytes more, or fewer. Locked.
  void count_read_ahead(std::ptrdiff_t bytes);
  // Of all loaders.
  std::size_t read_ahead_bytes();

  // There may be new work. Locked or not.
  void wake_decoders();
  void wake_readers();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
