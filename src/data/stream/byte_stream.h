// Bytes that come once and in order: standard input, a named pipe, or a file read like one. A read
// that waits can be ended from elsewhere.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kiln {

// Why a stream cannot be read: a clause without its name.
class StreamFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A read was canceled because the stream is no longer needed.
class StreamClosed : public std::exception {};

// How other threads see and end the reading of streams, one after another.
struct StreamWatch {
  enum class State { kAbsent, kUnwritten, kOpen };  // no such file; no writer yet

  std::atomic<bool> closing = false;
  std::atomic<State> state = State::kAbsent;
  std::atomic<std::uint64_t> received = 0;  // bytes, of all streams
  std::atomic<std::uint64_t> images = 0;    // likewise
};

// One thread.
class ByteStream {
 public:
  // Opened by the first read, which waits for a pipe that is not there yet and for its writer.
  // `path`: "-" is standard input. `watch` must outlive this.
  ByteStream(std::string path, StreamWatch& watch);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Whether it can be opened again when it has ended, for the next writer. A writer that comes in
  // between finds a reader.
  bool is_pipe() const { return is_pipe_; }
  void reopen();

  // The next `size` bytes, of which fewer come only at the end; valid until the next call. At most
  // kMostPeeked. Does not take them.
  std::string_view peek(std::size_t size);
  static constexpr std::size_t kMostPeeked = 4096;

  // Replaces `target` by the next `size` bytes; memory grows with what has come. False at the end,
  // before the first byte. Throws StreamFault where the end comes later, and where reading fails;
  // StreamClosed.
  bool read(std::size_t size, std::string& target);
  // The same, where the end is a fault.
  std::string take(std::size_t size);
  void skip(std::uint64_t size);
  // As many of them as there are, at most; 0 only at the end. Returns their number.
  std::size_t take_some(char* target, std::size_t size);

  std::uint64_t position() const { return position_; }  // bytes taken since it was opened

 private:
  bool fill();  // false at the end
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
