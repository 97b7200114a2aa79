// A regular file that stays open, read by position from any thread. Closed by its destructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace kiln {

class OpenFile {
 public:
  OpenFile() = default;
  // Throws std::system_error naming the path; EISDIR, EINVAL for what is no regular file.
  explicit OpenFile(const std::filesystem::path& path);
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // A file without a name in `folder`: its space is given back with the last descriptor, however
  // the process ends.
  static OpenFile unnamed(const std::filesystem::path& folder);

  bool is_open() const { return descriptor_ >= 0; }
  std::uint64_t size() const;

  // Bytes read: less than `size` only where the file ends. Throws std::system_error.
  std::size_t read_at(std::uint64_t offset, char* target, std::size_t size) const;
  void append(std::string_view bytes);

 private:
  int descriptor_ = -1;
};

}  // namespace kiln
