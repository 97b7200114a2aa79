#include <zlib.h>
#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "data/archive/byte_source.h"
#include "data/archive/record_reader.h"

namespace kiln {
namespace {

constexpr std::size_t kPortion = 1 << 16;
constexpr int kAnyHeader = MAX_WBITS + 32;  // detects gzip and zlib

class UnpackingSource : public ByteSource {
 public:
  explicit UnpackingSource(ByteSource& packed) : packed_(packed), buffer_(kPortion) {
    if (inflateInit2(&stream_, kAnyHeader) != Z_OK) throw std::bad_alloc();
  }
  ~UnpackingSource() override { inflateEnd(&stream_); }
  UnpackingSource(const UnpackingSource&) = delete;
  UnpackingSource& operator=(const UnpackingSource&) = delete;

  std::size_t read(char* target, std::size_t size) override {
    if (size == 0) return 0;
    stream_.next_out = reinterpret_cast<Bytef*>(target);
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(size, kMost));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (stream_.avail_in == 0 && !refill()) return 0;
      if (is_between_) begin_member();
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_MEM_ERROR) throw std::bad_alloc();
      if (result == Z_STREAM_END) {
        is_between_ = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        throw RecordFault(std::string("its compressed data is damaged (") +
                          (stream_.msg ? stream_.msg : "unknown reason") + ")");
      }
    }
    return wanted - stream_.avail_out;
  }

 private:
  static constexpr std::size_t kMost = 1 << 30;

  // Reads more compressed bytes. False at the end; throws RecordFault if that is inside a member.
  bool refill() {
    const std::size_t got = packed_.read(buffer_.data(), buffer_.size());
    if (got == 0 && !is_between_) throw RecordFault("its compressed data is truncated");
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_in = static_cast<uInt>(got);
    return got > 0;
  }

  void begin_member() {
    if (inflateReset(&stream_) != Z_OK) throw std::bad_alloc();
    is_between_ = false;
  }

  ByteSource& packed_;
  std::vector<char> buffer_;
  z_stream stream_{};
  bool is_between_ = false;  // a member has ended, and no other has begun
};

}  // namespace

std::unique_ptr<ByteSource> unpacking_source(ByteSource& packed) {
  return std::make_unique<UnpackingSource>(packed);
}

}  // namespace kiln
