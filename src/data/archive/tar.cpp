#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "data/archive/archive.h"

namespace kiln {
namespace {

constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kMaxExtraBytes = 1 << 20;  // of one long name or pax header
constexpr std::size_t kWindowBytes = 8192;         // small members share a read
constexpr std::uint64_t kMaxPadding = 1 << 20;     // behind the end mark

std::uint64_t rounded_up(std::uint64_t size) {
  return (size + kBlock - 1) / kBlock * kBlock;
}

std::string_view field(std::string_view header, std::size_t at, std::size_t size) {
  const std::string_view whole = header.substr(at, size);
  return whole.substr(0, std::min(whole.find('\0'), whole.size()));
}

// Octal digits between blanks, or base 256 where the first bit is set.
std::optional<std::uint64_t> number(std::string_view header, std::size_t at, std::size_t size) {
  const std::string_view raw = header.substr(at, size);
  std::uint64_t value = 0;
  if ((static_cast<unsigned char>(raw[0]) & 0x80) != 0) {
    if (static_cast<unsigned char>(raw[0]) != 0x80) return std::nullopt;  // negative, or too large
    for (const char c : raw.substr(1)) {
      if (value >> 56 != 0) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return value;
  }
  std::string_view digits = field(header, at, size);
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  digits = digits.substr(0, std::min(digits.find(' '), digits.size()));
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (digits.empty()) return 0;
  if (fault != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

bool has_good_checksum(std::string_view header) {
  std::uint64_t sum = 8 * ' ';  // the checksum's own field counts as blanks
  for (std::size_t i = 0; i < kBlock; ++i) {
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(header[i]);
  }
  return number(header, 148, 8) == sum;
}

bool is_zero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

class TarWalk {
 public:
  TarWalk(const OpenFile& file, const std::function<void(const ArchiveEntry&)>& visit)
      : file_(file), visit_(visit), end_(file.size()) {}

  void walk() {
    if (end_ == 0) throw ArchiveFault("it is empty");
    while (true) {
      const std::string_view header = bytes(at_, kBlock);
      if (is_zero(header)) break;
      if (!has_good_checksum(header)) {
        throw ArchiveFault("the header of an entry at byte " + std::to_string(at_) +
                           " is damaged (its checksum is wrong)");
      }
      read_entry(std::string(header));
    }
    check_end();
  }

 private:
  // Views into the window; valid until the next call.
  std::string_view bytes(std::uint64_t offset, std::uint64_t size) {
    if (offset > end_ || size > end_ - offset) {
      throw ArchiveFault("it is truncated after " + std::to_string(end_) +
                         " bytes, in the middle of an entry or before its end mark");
    }
    if (offset < window_begin_ || offset + size > window_begin_ + window_.size()) {
      window_begin_ = offset;
      window_.resize(std::max<std::size_t>(size, kWindowBytes));
      window_.resize(file_.read_at(offset, window_.data(), window_.size()));
      if (window_.size() < size) throw ArchiveFault("it was truncated while being read");
    }
    return std::string_view(window_).substr(offset - window_begin_, size);
  }

  void read_entry(const std::string& header) {
    const char kind = header[156];
    std::optional<std::uint64_t> size = number(header, 124, 12);
    const bool is_extra = kind == 'x' || kind == 'g' || kind == 'L' || kind == 'K';
    if (!is_extra && pax_size_) size = pax_size_;
    if (!size) throw ArchiveFault("the size of an entry is not a number");
    const bool has_data = std::string_view("123456").find(kind) == std::string_view::npos;
    const std::uint64_t data = at_ + kBlock;
    if (has_data && *size > end_ - std::min(end_, data)) bytes(data, *size);  // throws
    at_ = data + (has_data ? rounded_up(*size) : 0);
    if (is_extra) {
      if (*size > kMaxExtraBytes) throw ArchiveFault("a name in it is longer than 1 MiB");
      read_extra(kind, bytes(data, *size));
      return;
    }
    if (std::string_view("1234567").find(kind) == std::string_view::npos && kind != '\0' &&
        kind != '0') {
      throw ArchiveFault(std::string("it contains an entry of type '") + kind +
                         "' (sparse or split), which cannot be read in place");
    }
    const std::string name = name_of(header);
    long_name_.reset();
    pax_size_.reset();
    if (has_data && !name.ends_with('/')) visit_entry(name, data, *size);
  }

  void visit_entry(std::string_view name, std::uint64_t offset, std::uint64_t size) {
    while (name.starts_with("./")) name.remove_prefix(2);
    if (const std::string fault = fault_of_relative_path(name); !fault.empty())
      throw ArchiveFault("it contains a bad name: " + fault);
    visit_({name, offset, size});
  }

  std::string name_of(std::string_view header) const {
    if (long_name_) return *long_name_;
    const std::string name(field(header, 0, 100));
    const bool is_posix = header.substr(257, 6) == std::string_view("ustar\0", 6);
    const std::string prefix(is_posix ? field(header, 345, 155) : "");
    return prefix.empty() ? name : prefix + "/" + name;
  }

  void read_extra(char kind, std::string_view data) {
    if (kind == 'L')
      long_name_ = std::string(data.substr(0, std::min(data.find('\0'), data.size())));
    if (kind == 'x' || kind == 'g') read_pax(kind, data);
  }

  // Records "LENGTH KEY=VALUE\n", where LENGTH counts all of it.
  void read_pax(char kind, std::string_view data) {
    while (!data.empty()) {
      std::size_t length = 0;
      const auto [digits, fault] =
          std::from_chars(data.data(), data.data() + data.size(), length, 10);
      const auto text = static_cast<std::size_t>(digits - data.data()) + 1;
      if (fault != std::errc() || length > data.size() || length <= text ||
          data[length - 1] != '\n') {
        throw ArchiveFault("a pax header in it is damaged");
      }
      const std::string_view record = data.substr(text, length - text - 1);
      const std::size_t equals = std::min(record.find('='), record.size() - 1);
      read_pax_record(kind, record.substr(0, equals), record.substr(equals + 1));
      data.remove_prefix(length);
    }
  }

  void read_pax_record(char kind, std::string_view key, std::string_view value) {
    if (key.starts_with("GNU.sparse."))
      throw ArchiveFault("it contains a sparse file, which cannot be read in place");
    if (key != "path" && key != "size") return;
    if (kind == 'g')
      throw ArchiveFault("a pax header in it sets one value for all entries: " + std::string(key));
    if (key == "path") {
      long_name_ = std::string(value);
      return;
    }
    std::uint64_t size = 0;
    const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (fault != std::errc() || end != value.data() + value.size())
      throw ArchiveFault("a pax header in it has a size that is not a number");
    pax_size_ = size;
  }

  // A tar after the end marker would be ignored silently.
  void check_end() {
    const std::uint64_t size = std::min(end_ - at_, kMaxPadding);
    if (!is_zero(bytes(at_, size)))
      throw ArchiveFault("data follows its end marker, as in concatenated archives");
  }

  const OpenFile& file_;
  const std::function<void(const ArchiveEntry&)>& visit_;
  std::uint64_t end_;
  std::uint64_t at_ = 0;
  std::uint64_t window_begin_ = 0;
  std::string window_;
  std::optional<std::string> long_name_;  // of the entry that follows
  std::optional<std::uint64_t> pax_size_;
};

// Octal digits and a zero byte.
void put_number(std::string& header, std::size_t at, int digits, std::uint64_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(value));
  std::memcpy(header.data() + at, text, static_cast<std::size_t>(digits));
}

}  // namespace

void list_tar(const OpenFile& file, const std::function<void(const ArchiveEntry&)>& visit) {
  TarWalk(file, visit).walk();
}

bool is_tar(const OpenFile& file) {
  std::string header(kBlock, '\0');
  if (file.read_at(0, header.data(), header.size()) < header.size()) return false;
  return is_zero(header) || has_good_checksum(header);
}

std::string tar_member(std::string_view name, std::string_view bytes) {
  if (name.empty() || name.size() > 100 || bytes.size() >> 33 != 0)
    throw InternalError("tar_member: the name is too long, or the file too large");
  std::string member(kBlock, '\0');
  name.copy(member.data(), name.size());
  put_number(member, 100, 7, 0644);
  put_number(member, 108, 7, 0);
  put_number(member, 116, 7, 0);
  put_number(member, 124, 11, bytes.size());
  put_number(member, 136, 11, 0);
  member[156] = '0';
  std::memcpy(member.data() + 257, "ustar\00000", 8);
  std::uint64_t sum = 8 * ' ';
  for (const char c : member) sum += static_cast<unsigned char>(c);
  put_number(member, 148, 6, sum);
  member[155] = ' ';
  member += bytes;
  member.resize((member.size() + kBlock - 1) / kBlock * kBlock, '\0');
  return member;
}

std::string tar_end() {
  return std::string(2 * kBlock, '\0');
}

}  // namespace kiln
