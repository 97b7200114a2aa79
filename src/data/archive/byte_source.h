// Sequential bytes from a file, a pipe, or by decompressing another source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "data/archive/archive.h"

namespace kiln {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Writes 1 to `size` bytes to `target` and returns their number; 0 only at the end, or if `size`
  // is 0. Throws std::system_error; a decompressing source throws RecordFault for damaged data.
  virtual std::size_t read(char* target, std::size_t size) = 0;
};

// Reads a file from `offset` on. The file must stay open.
class FileSource : public ByteSource {
 public:
  explicit FileSource(const OpenFile& file, std::uint64_t offset = 0)
      : file_(file), offset_(offset) {}
  std::size_t read(char* target, std::size_t size) override {
    const std::size_t got = file_.read_at(offset_, target, size);
    offset_ += got;
    return got;
  }

 private:
  const OpenFile& file_;
  std::uint64_t offset_;
};

// Decompresses `packed`: gzip (RFC 1952), including several members in a row, or zlib format (RFC
// 1950). `packed` must outlive the result. Memory: 64 KiB and zlib's window.
std::unique_ptr<ByteSource> unpacking_source(ByteSource& packed);

}  // namespace kiln
