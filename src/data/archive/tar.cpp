#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/archive/archive.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMaxExtraBytes = 1 << 20;  // of one long name or pax header
// No file is this large, and offsets computed from larger sizes could overflow.
constexpr std::uint64_t kMaxEntryBytes = std::uint64_t{1} << 62;

std::string_view field(std::string_view header, std::size_t at, std::size_t size) {
  const std::string_view whole = header.substr(at, size);
  return whole.substr(0, std::min(whole.find('\0'), whole.size()));
}

// Parses a numeric field: octal digits surrounded by blanks or, if the first bit is set, base 256.
// A blank field is 0. Empty if the field is not a number or does not fit.
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
  return digits.empty() ? 0 : number_in<std::uint64_t>(digits, 8);
}

TarKind kind_of(char type) {
  if (std::string_view("xgLK").find(type) != std::string_view::npos) return TarKind::kExtra;
  if (type == '1' || type == '2') return TarKind::kLink;
  if (type == '3' || type == '4' || type == '6') return TarKind::kDevice;
  if (type == '5') return TarKind::kFolder;
  if (type == '0' || type == '7' || type == '\0') return TarKind::kFile;
  return TarKind::kStrange;
}

std::string plain_name(std::string_view header) {
  const std::string name(field(header, 0, 100));
  const bool is_posix = header.substr(257, 6) == std::string_view("ustar\0", 6);
  const std::string prefix(is_posix ? field(header, 345, 155) : "");
  return prefix.empty() ? name : prefix + "/" + name;
}

std::uint64_t checksum_of(std::string_view header) {
  std::uint64_t sum = 8 * ' ';  // the checksum's own field counts as blanks
  for (std::size_t i = 0; i < kTarBlock; ++i)
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(header[i]);
  return sum;
}

bool has_good_checksum(std::string_view header) {
  return number(header, 148, 8) == checksum_of(header);
}

constexpr std::uint64_t kMaxPadding = 1 << 20;  // bytes checked after the end mark

// Writes `value` as octal digits. The NUL that ends the field is already in the zeroed header.
void put_number(std::string& header, std::size_t at, int digits, std::uint64_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(value));
  std::memcpy(header.data() + at, text, static_cast<std::size_t>(digits));
}

}  // namespace

std::string normal_name(std::string_view path) {
  std::string name(path.starts_with('/') ? "/" : "");
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (!name.empty() && !name.ends_with('/')) name += '/';
    name += part;
  }
  return name;
}

bool is_zero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

bool begins_as_tar(std::string_view first_bytes) {
  const std::string_view block = first_bytes.substr(0, kTarBlock);
  return block.size() == kTarBlock && (is_zero(block) || has_good_checksum(block));
}

TarEntry TarHeaders::read(std::string_view header, std::uint64_t at) {
  if (!has_good_checksum(header))
    throw ArchiveFault("the header of an entry at byte " + std::to_string(at) +
                       " is damaged (its checksum is wrong)");
  TarEntry entry{.kind = kind_of(header[156]), .type = header[156]};
  std::optional<std::uint64_t> size = number(header, 124, 12);
  if (entry.kind != TarKind::kExtra && pax_size_) size = pax_size_;
  if (!size) throw ArchiveFault("the size of an entry is not a number");
  if (*size > kMaxEntryBytes) throw ArchiveFault("an entry claims more bytes than a file can have");
  if (entry.kind == TarKind::kExtra && *size > kMaxExtraBytes)
    throw ArchiveFault("a name in it is longer than 1 MiB");
  if (entry.kind == TarKind::kFile || entry.kind == TarKind::kExtra ||
      entry.kind == TarKind::kStrange)
    entry.size = *size;
  return entry;
}

void TarHeaders::read_extra(const TarEntry& entry, std::string_view data) {
  if (entry.type == 'L' || entry.type == 'K')
    (entry.type == 'L' ? long_name_ : long_target_) =
        std::string(data.substr(0, std::min(data.find('\0'), data.size())));
  if (entry.type == 'x' || entry.type == 'g') read_pax(entry.type, data);
}

std::string TarHeaders::read_name(const TarEntry& entry, std::string_view header) {
  if (entry.kind == TarKind::kStrange)
    throw ArchiveFault(std::string("it contains an entry of type '") + entry.type +
                       "' (sparse or split), which cannot be read in place");
  std::string name = long_name_ ? *long_name_ : plain_name(header);
  link_target_ = long_target_ ? *long_target_ : std::string(field(header, 157, 100));
  long_name_.reset();
  long_target_.reset();
  pax_size_.reset();
  if (entry.kind == TarKind::kFolder || (entry.kind == TarKind::kFile && name.ends_with('/')))
    return name;
  name = normal_name(name);
  if (const std::string fault = fault_of_relative_path(name); !fault.empty())
    throw ArchiveFault("it contains a bad name: " + fault);
  return name;
}

// Parses records of the form "LENGTH KEY=VALUE\n", where LENGTH is the bytes of the whole record.
void TarHeaders::read_pax(char type, std::string_view data) {
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
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    data.remove_prefix(length);
    if (key.starts_with("GNU.sparse."))
      throw ArchiveFault("it contains a sparse file, which cannot be read in place");
    if (key != "path" && key != "linkpath" && key != "size") continue;
    if (type == 'g')
      throw ArchiveFault("a pax header in it sets one value for all entries: " + std::string(key));
    if (key == "path") long_name_ = value;
    if (key == "linkpath") long_target_ = value;
    if (key != "size") continue;
    pax_size_ = number_in<std::uint64_t>(value);
    if (!pax_size_) throw ArchiveFault("a pax header in it has a size that is not a number");
  }
}

void list_tar(const OpenFile& file, const MemberVisit& visit, const LinkVisit& visit_link,
              bool may_go_on) {
  FileWindow window(file);
  const std::uint64_t end = window.end();
  std::uint64_t at = 0;
  TarHeaders headers;
  // A view into the window, valid until the next call.
  const auto bytes = [&](std::uint64_t offset, std::uint64_t size) {
    const std::string_view found = window.bytes(offset, size);
    if (found.size() < size)
      throw ArchiveFault("it is truncated after " + std::to_string(end) +
                         " bytes, in the middle of an entry or before its end mark");
    return found;
  };
  const auto read_entry = [&](const std::string& header) {
    const TarEntry entry = headers.read(header, at);
    const std::uint64_t data = at + kTarBlock;
    if (entry.size > end - std::min(end, data)) bytes(data, entry.size);  // throws
    at = data + tar_padded(entry.size);
    if (entry.kind == TarKind::kExtra) return headers.read_extra(entry, bytes(data, entry.size));
    const std::string name = headers.read_name(entry, header);
    if (entry.kind == TarKind::kFile && !name.ends_with('/'))
      visit(name, {.offset = data, .stored_size = entry.size, .size = entry.size});
    if (entry.kind == TarKind::kLink && visit_link)
      visit_link(
          {name, headers.link_target(), entry.type == '1' ? LinkKind::kHard : LinkKind::kSymbolic});
    if (entry.kind == TarKind::kDevice && visit_link) visit_link({name, {}, LinkKind::kDevice});
  };
  if (end == 0) throw ArchiveFault("it is empty");
  do {
    for (std::string header(bytes(at, kTarBlock)); !is_zero(header); header = bytes(at, kTarBlock))
      read_entry(header);
    while (may_go_on && at < end &&
           is_zero(bytes(at, std::min<std::uint64_t>(kTarBlock, end - at))))
      at += kTarBlock;
  } while (may_go_on && at < end);
  // Data after the end mark, of a concatenated tar, would otherwise be ignored silently.
  if (!may_go_on && !is_zero(bytes(at, std::min(end - at, kMaxPadding))))
    throw ArchiveFault("data follows its end marker, as in concatenated archives");
}

bool is_tar(const OpenFile& file) {
  return begins_as_tar(file.bytes_at(0, kTarBlock));
}

std::string tar_member(std::string_view name, std::string_view bytes) {
  if (name.empty() || name.size() > 100 || bytes.size() >> 33 != 0)
    throw InternalError("tar_member: the name is too long, or the file too large");
  std::string member;
  member.reserve(tar_padded(kTarBlock + bytes.size()) + 2 * kTarBlock);  // and a label after it
  member.resize(kTarBlock);
  name.copy(member.data(), name.size());
  put_number(member, 100, 7, 0644);
  put_number(member, 108, 7, 0);
  put_number(member, 116, 7, 0);
  put_number(member, 124, 11, bytes.size());
  put_number(member, 136, 11, 0);
  member[156] = '0';
  std::memcpy(member.data() + 257, "ustar\00000", 8);
  put_number(member, 148, 6, checksum_of(member));
  member[155] = ' ';
  member += bytes;
  member.resize(tar_padded(member.size()), '\0');
  return member;
}

std::string tar_end() {
  return std::string(2 * kTarBlock, '\0');
}

}  // namespace kiln
