#include <archive.h>
#include <zlib.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "base/text.h"
#include "data/archive/archive.h"

namespace kiln {
namespace {

[[noreturn]] void fail_to_open(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), "'" + path.string() + "'");
}

namespace fs = std::filesystem;

constexpr std::uint64_t kSmallBytes = 1ULL << 30;
constexpr std::uint64_t kMaxRatio = 200;
constexpr std::size_t kPortion = 1 << 20;
constexpr std::size_t kWindowBytes = 8192;
constexpr std::string_view kGzip = "\x1f\x8b";

// Whether this is a frame of Zstandard to be skipped, as pzstd writes them (RFC 8878, 3.1.2).
bool is_skippable(std::string_view header) {
  return header.size() >= 4 && (header[0] & 0xf0) == 0x50 && header.substr(1, 3) == "\x2a\x4d\x18";
}

// Where the data begins.
std::uint64_t data_begin(const OpenFile& file) {
  std::uint64_t at = 0;
  while (true) {
    const std::string header = file.bytes_at(at, 8);
    if (header.size() < 8 || !is_skippable(header)) return at;
    std::uint32_t size = 0;  // little-endian, as every supported machine
    std::memcpy(&size, header.data() + 4, sizeof size);
    at += header.size() + size;
  }
}

using Append = std::function<void(std::string_view bytes)>;

// Uses zlib because libarchive does not verify gzip checksums.
void unpack_gzip(const fs::path& path, const Append& append) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rbe"), gzclose_r);
  if (!file) fail_to_open(path);
  std::vector<char> buffer(kPortion);
  int got = 0;
  while ((got = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()))) > 0)
    append({buffer.data(), static_cast<std::size_t>(got)});
  int fault = Z_OK;
  const std::string text = gzerror(file.get(), &fault);
  if (fault != Z_OK) throw ArchiveFault("it is truncated or damaged (" + text + ")");
}

// `begin`: where the data begins.
void unpack_others(const fs::path& path, std::uint64_t begin, const Append& append) {
  const std::unique_ptr<archive, int (*)(archive*)> reader(archive_read_new(), archive_read_free);
  archive_read_support_filter_bzip2(reader.get());
  archive_read_support_filter_zstd(reader.get());
  archive_read_support_format_raw(reader.get());
  const auto check = [&](int result) {
    if (result >= ARCHIVE_WARN) return;
    const char* text = archive_error_string(reader.get());
    throw ArchiveFault(std::string("it is truncated or damaged (") +
                       (text ? text : "unknown reason") + ")");
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             std::fclose);
  if (!file || ::fseeko(file.get(), static_cast<off_t>(begin), SEEK_SET) != 0) fail_to_open(path);
  check(archive_read_open_FILE(reader.get(), file.get()));
  archive_entry* entry = nullptr;
  check(archive_read_next_header(reader.get(), &entry));
  while (true) {
    const void* bytes = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    const int result = archive_read_data_block(reader.get(), &bytes, &size, &offset);
    if (result == ARCHIVE_EOF) break;
    check(result);
    append({static_cast<const char*>(bytes), size});
  }
}

}  // namespace

Spool::Spool() {
  try {
    folder_ = fs::temp_directory_path();
  } catch (const fs::filesystem_error& fault) {
    throw SpoolFault("'" + fault.path1().string() + "' is not a folder");
  }
  try {
    file_ = OpenFile::unnamed(folder_);
    const std::uint64_t free = fs::space(folder_).available;
    limit_ = free - free / 10;
  } catch (const std::system_error& fault) {
    fail(fault.code());
  }
}

void Spool::append(std::string_view bytes) {
  if (size_ + bytes.size() > limit_)
    throw SpoolFault("after " + bytes_text(size_) +
                     " it needs more than 90 % of the free space in '" + folder_.string() + "'");
  try {
    file_.append(bytes);
  } catch (const std::system_error& fault) {
    fail(fault.code());
  }
  size_ += bytes.size();
}

void Spool::fail(const std::error_code& code) const {
  const std::string held = size_ == 0 ? "" : " beyond the first " + bytes_text(size_);
  throw SpoolFault("'" + folder_.string() + "' cannot hold it" + held + ": " + code.message());
}

std::string_view FileWindow::bytes(std::uint64_t offset, std::size_t size) {
  if (offset > end_ || size > end_ - offset) return {};
  if (offset < begin_ || offset + size > begin_ + window_.size()) {
    begin_ = offset;
    window_.resize(std::max(size, kWindowBytes));
    window_.resize(file_.read_at(offset, window_.data(), window_.size()));
  }
  return std::string_view(window_).substr(offset - begin_, size);
}

bool is_compressed(std::string_view first_bytes) {
  return first_bytes.starts_with(kGzip) || first_bytes.starts_with("BZh") ||
         first_bytes.starts_with("\x28\xb5\x2f\xfd") || is_skippable(first_bytes);
}

bool is_compressed(const OpenFile& file) {
  return is_compressed(file.bytes_at(0, 4));
}

OpenFile unpacked(const fs::path& path) {
  Spool spool;
  const std::uint64_t limit = std::max(kSmallBytes, fs::file_size(path) * kMaxRatio);
  const Append append = [&](std::string_view bytes) {
    if (spool.size() + bytes.size() > limit)
      throw ArchiveFault("it unpacks to more than " + std::to_string(kMaxRatio) +
                         " times its size, which is not plausible for images");
    spool.append(bytes);
  };
  const OpenFile file(path);
  if (file.bytes_at(0, 4).starts_with(kGzip))
    unpack_gzip(path, append);
  else
    unpack_others(path, data_begin(file), append);
  return spool.take();
}

}  // namespace kiln
