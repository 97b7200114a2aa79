// Bytes that arrive once and in order: from standard input, a named pipe, or a file read in the
// same way. A blocked read can be canceled by another thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "data/archive/record_reader.h"

namespace kiln {

// Why a stream cannot be read, as a clause without its name.
class StreamFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Thrown when a read is canceled because the stream is no longer needed.
class StreamClosed : public std::exception {};

// Lets other threads watch and cancel the reading of streams, one stream at a time.
struct StreamWatch {
  enum class State { kAbsent, kUnwritten, kOpen };  // no such file; no writer yet

  std::atomic<bool> closing = false;
  std::atomic<State> state = State::kAbsent;
  std::atomic<std::uint64_t> received = 0;  // bytes, over all streams
  std::atomic<std::uint64_t> images = 0;    // likewise
  // Called in the reading thread between looks for bytes that do not come. What it throws, the
  // reading function throws.
  std::function<void()> while_waiting = {};
};

// Use from one thread.
class ByteStream final : public ByteSource {
 public:
  // The first read opens the stream, and waits for a pipe that does not exist yet and for its
  // writer. `path` "-" is standard input. `watch` must outlive this object.
  ByteStream(std::string path, StreamWatch& watch);
  ~ByteStream() override;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Whether the stream can be reopened after its end, for the next writer. A writer that opens the
  // pipe in between finds a reader.
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

}  // namespace kiln
