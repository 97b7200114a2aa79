// What the targets of this folder share. A target reads bytes as the program reads those from
// outside. It may accept them or refuse them with an error that is meant for the user; anything
// else ends the target, and libFuzzer keeps the input.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace kiln::fuzz {

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// The part of `text` up to the next line "--", which both go from it.
inline std::string take_part(std::string& text) {
  const std::size_t end = text.find("\n--\n");
  std::string part = text.substr(0, end);
  text.erase(0, end == text.npos ? end : end + 4);
  return part;
}

// True: accepted. False: refused with one of the `Faults`. Any other exception is not caught, so
// that the report shows where it was thrown.
template <typename Read>
bool accepts(Read&& read) {
  read();
  return true;
}
template <typename Fault, typename... Others, typename Read>
bool accepts(Read&& read) {
  try {
    return accepts<Others...>(read);
  } catch (const Fault&) {
    return false;
  }
}

inline void require(bool holds) {
  if (!holds) std::abort();
}

// A folder of this process. run.sh gives a TMPDIR and removes it.
inline const std::filesystem::path& folder() {
  static const std::filesystem::path kFolder = [] {
    std::string pattern = (std::filesystem::temp_directory_path() / "kiln-fuzz-XXXXXX").string();
    return std::filesystem::path(::mkdtemp(pattern.data()));
  }();
  return kFolder;
}

// The path of file `name` in that folder, which holds `bytes` now.
inline std::filesystem::path put(const std::string& name, std::string_view bytes) {
  std::filesystem::path path = folder() / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace kiln::fuzz
