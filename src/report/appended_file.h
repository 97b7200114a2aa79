// A file that grows by whole pieces while the program runs, so that a reader, or whoever looks
// after a kill, finds no half of one.
#pragma once

#include <filesystem>
#include <string_view>

namespace kiln {

class AppendedFile {
 public:
  // Begins it anew, unless another program appends to it. Throws std::runtime_error, as append()
  // does.
  explicit AppendedFile(std::filesystem::path path);
  // Whether a program appends to it now.
  static bool is_in_use(const std::filesystem::path& path);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  // In one write; what a full disk cuts short is taken back.
  void append(std::string_view piece);

 private:
  std::filesystem::path path_;
  int file_;
};

}  // namespace kiln
