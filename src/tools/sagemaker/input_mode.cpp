#include "tools/sagemaker/input_mode.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>

#include "base/system.h"
#include "base/text.h"
#include "data/dataset/folder_entries.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMuch = 50'000'000'000;   // bytes to copy before training begins
constexpr std::uint64_t kLargeFile = 50'000'000;  // bytes
constexpr std::size_t kManyFiles = 10'000;

std::uint64_t size_of(const fs::path& path) {
  std::error_code fault;
  const std::uint64_t size = fs::file_size(path, fault);
  return fault ? 0 : size;
}

}  // namespace

StoredFiles stored_files(const Dataset& set) {
  StoredFiles files;
  if (!set.archives.empty()) {
    files.count = set.archives.size();
    for (const ImageArchive& archive : set.archives) {
      const std::uint64_t size = size_of(archive.name.empty() ? set.root : set.root / archive.name);
      files.bytes += size;
      files.compressed = files.compressed || size != archive.file.size();
    }
    files.in_place = !files.compressed;
    return files;
  }
  files.count = set.samples.size();
  std::atomic<std::uint64_t> bytes = 0;
  in_parallel(files.count, kScanThreads,
              [&](std::size_t i) { bytes += size_of(set.root / set.samples.file_name(i)); });
  files.bytes = bytes;
  return files;
}

InputMode fitting_mode(const StoredFiles& files) {
  const std::string size = bytes_text(static_cast<long long>(files.bytes));
  const std::uint64_t mean = files.bytes / std::max<std::size_t>(files.count, 1);
  const bool is_small_set = files.bytes <= kMuch;
  const bool is_packed = files.in_place || files.compressed;
  const std::string count = grouped(static_cast<long long>(files.count)) + " files";
  if (is_small_set && files.count > kManyFiles && mean < kLargeFile)
    return {"File", size + " is quick to copy, but not as " + count +
                        ": pack them ('kiln pack'), and training starts earlier"};
  if (is_small_set) return {"File", size + " is quick to copy, and disks read fastest"};
  if (files.compressed)
    return {"Pipe", size +
                        " of compressed files can only be read in order; uncompressed, FastFile "
                        "could shuffle all of them"};
  if (is_packed && mean >= kLargeFile)
    return {"FastFile", size +
                            " in large files is read in place, in any order, during training; "
                            "Pipe would shuffle only in a buffer"};
  return {
      "File",
      size + " in " + count +
          " is slow to copy and slower to read file by file: pack it ('kiln pack') for FastFile"};
}

}  // namespace kiln
