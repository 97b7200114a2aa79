// Streams: bytes that arrive once and in order, from standard input, a named pipe, or a file read
// in the same way; and the images in them, whether tars, TFRecord, or RecordIO.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "data/archive/record_reader.h"
#include "data/dataset/listing.h"
#include "record/vocabulary.h"

namespace kiln {

// Why a stream cannot be read, as a clause without its name.
class StreamFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Thrown when a read is canceled because the stream is no longer needed.
class StreamClosed : public std::exception {};

enum class WriterState { kAbsent, kUnwritten, kOpen };  // no such file; no writer yet

// Lets other threads watch and cancel the reading of streams, one stream at a time.
struct StreamWatch {
  std::atomic<bool> closing = false;
  std::atomic<WriterState> state = WriterState::kAbsent;
  std::atomic<std::uint64_t> received = 0;  // bytes, over all streams
  std::atomic<std::uint64_t> images = 0;    // likewise
  // Called in the reading thread between looks for bytes; what it throws, the reading function
  // throws.
  std::function<void()> while_waiting = {};
};

// A blocked read can be canceled by another thread. Use from one thread.
class ByteStream final : public ByteSource {
 public:
  // The first read opens the stream, and waits for a pipe that does not exist yet and for its
  // writer. `path` "-" is standard input. `watch` must outlive this object.
  ByteStream(std::string path, StreamWatch& watch);
  ~ByteStream() override;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Whether it can be reopened after its end, for the next writer, who finds a reader before that.
  bool is_pipe() const { return is_pipe_; }
  void reopen();

  // The next `size` bytes without consuming them; fewer only at the end. Valid until the next call.
  std::string_view peek(std::size_t size);

  // Replaces `target` with the next `size` bytes; memory grows with the bytes that have arrived.
  // False if the stream ended before the first byte. Throws StreamFault if it ends later, and if
  // reading fails; StreamClosed.
  bool read(std::size_t size, std::string& target);
  // The same, but an end of the stream is always a fault.
  std::string take(std::size_t size);
  void skip(std::uint64_t size);
  // Takes up to `size` bytes, as many as are available.
  std::size_t read(char* target, std::size_t size) override {
    return take_some(size).copy(target, size);
  }

  std::uint64_t position() const { return position_; }  // bytes taken since it was opened

 private:
  bool fill();  // false at the end
  // Empty only at the end; valid until the next call.
  std::string_view take_some(std::size_t size);
  void open();
  [[noreturn]] void fail_cut_off() const;

  const std::string path_;
  StreamWatch& watch_;
  int file_ = -1;
  bool is_pipe_ = false, has_come_ = false, at_end_ = false;
  std::uint64_t position_ = 0;
  std::string buffer_;  // read and not yet taken, from `begin_`
  std::size_t begin_ = 0;
};

struct StreamRecord {
  std::string name;
  std::string bytes = {};  // the image file's contents
  RawLabel label = {};
  std::string fault = {};  // why the image cannot be used; empty: no known fault
};

// Use from one thread.
class RecordStream {
 public:
  virtual ~RecordStream() = default;
  // Reads the next record; false at the end. Throws StreamFault, ArchiveFault; StreamClosed.
  virtual bool next(StreamRecord& record) = 0;
  // An epoch begins, whose images may be those of the epoch before.
  virtual void begin_epoch() {}
};

// Detects the format from the first bytes. `bytes` and `left_out`, which gets what else the stream
// holds, must outlive the result. Throws the same. `options` are for TFRecord and RecordIO, which
// holds images with MXNet's header, or those of SageMaker's augmented manifests: an image, then its
// label.
//
// Tars may follow one another. The class of an image is in its label file (listing.h), if the
// stream has any, otherwise it is the image's folder, which lies beside that of the first image;
// images elsewhere are left out as in an archive. The files of a key must follow each other.
std::unique_ptr<RecordStream> open_records(ByteStream& bytes, const RecordOptions& options,
                                           LeftOut& left_out);

// A run's stream has a path: "-" (standard input), a named pipe, or a path with `{epoch}`, which
// stands for the epoch's number, so that each epoch has its own stream.

// Whether images at this path arrive as a stream.
bool is_stream_path(const std::string& path);

// The path for an epoch, counted from 0 in each process, also after a restart.
std::string stream_path(const std::string& path, int epoch);

// Error kInvalidDataset for a StreamFault, an ArchiveFault or a RecordFault. `name` is that of the
// stream: "Training dataset '-'".
Error error_of_stream(const std::string& name, const std::exception& fault);

// Use from one thread.
class StreamSource {
 public:
  // `watch` must outlive this object.
  StreamSource(std::string path, RecordOptions options, StreamWatch& watch)
      : path_(std::move(path)), options_(std::move(options)), watch_(watch) {}

  // Starts the epoch with this number. It continues where the previous one ended, unless each epoch
  // has its own stream. Returns whether it starts in the middle of a stream.
  bool begin_epoch(int number);

  // Reads the next record; false at the end. Throws as RecordStream::next() does.
  bool next(StreamRecord& record);

  // What all streams so far held beside their images.
  const LeftOut& left_out() const { return left_out_; }

  // Reopens a named pipe that has ended, for its next writer; returns false for anything else.
  bool reopen();

 private:
  const std::string path_;
  const RecordOptions options_;
  StreamWatch& watch_;
  std::unique_ptr<ByteStream> bytes_;
  LeftOut left_out_;
  std::unique_ptr<RecordStream> records_;
  bool ended_ = false;
};

}  // namespace kiln
