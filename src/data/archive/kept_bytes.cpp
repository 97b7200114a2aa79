#include <algorithm>
#include <system_error>

#include "data/archive/archive.h"

namespace kiln {
namespace {

constexpr std::size_t kPortion = 1 << 20;

}  // namespace

KeptBytes::KeptBytes(std::uint64_t most_in_memory)
    : most_in_memory_(most_in_memory), file_(OpenFile::in_memory()) {}

void KeptBytes::append(std::string_view bytes) {
  if (is_in_memory_ && size_ + bytes.size() > most_in_memory_) move_to_folder();
  try {
    file_.append(bytes);
  } catch (const std::system_error& fault) {
    if (is_in_memory_) throw;
    throw SpoolFault("'" + folder_.string() + "' cannot hold it: " + fault.code().message());
  }
  size_ += bytes.size();
}

void KeptBytes::move_to_folder() {
  folder_ = temporary_folder();
  const OpenFile in_memory = std::exchange(file_, OpenFile());
  std::string portion;
  try {
    file_ = OpenFile::unnamed(folder_);
    for (std::uint64_t at = 0; at < size_; at += portion.size()) {
      portion.resize(std::min<std::uint64_t>(kPortion, size_ - at));
      portion.resize(in_memory.read_at(at, portion.data(), portion.size()));
      file_.append(portion);
    }
  } catch (const std::system_error& fault) {
    throw SpoolFault("'" + folder_.string() + "' cannot hold it: " + fault.code().message());
  }
  is_in_memory_ = false;
}

}  // namespace kiln
