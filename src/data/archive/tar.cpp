#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "data/archive/archive.h"
#include "data/archive/tar_headers.h"

namespace kiln {
namespace {

constexpr std::uint64_t kBlock = kTarBlock;
constexpr std::size_t kWindowBytes = 8192;      // small members share one read
constexpr std::uint64_t kMaxPadding = 1 << 20;  // bytes checked after the end mark

class TarWalk {
 public:
  TarWalk(const OpenFile& file, const std::function<void(const ArchiveEntry&)>& visit,
          const LinkVisit& visit_link, bool may_go_on)
      : file_(file),
        visit_(visit),
        visit_link_(visit_link),
        may_go_on_(may_go_on),
        end_(file.size()) {}

  void walk() {
    if (end_ == 0) throw ArchiveFault("it is empty");
    do {
      for (std::string header(bytes(at_, kBlock)); !is_zero(header); header = bytes(at_, kBlock))
        read_entry(header);
    } while (may_go_on_ && skip_zeros());
    if (!may_go_on_) check_end();
  }

 private:
  // Returns a view into the window, valid until the next call.
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
    const TarHeaders::Entry entry = headers_.read(header, at_);
    const std::uint64_t data = at_ + kBlock;
    if (entry.size > end_ - std::min(end_, data)) bytes(data, entry.size);  // throws
    at_ = data + tar_padded(entry.size);
    if (entry.kind == TarHeaders::Kind::kExtra)
      return headers_.take_extra(entry, bytes(data, entry.size));
    const std::string name = headers_.take_name(entry, header);
    if (entry.kind == TarHeaders::Kind::kFile && !name.ends_with('/'))
      visit_({name, data, entry.size});
    using Link = ArchiveLink::Kind;
    if (entry.kind == TarHeaders::Kind::kLink && visit_link_)
      visit_link_(
          {name, headers_.link_target(), entry.type == '1' ? Link::kHard : Link::kSymbolic});
    if (entry.kind == TarHeaders::Kind::kDevice && visit_link_)
      visit_link_({name, {}, Link::kDevice});
  }

  // Goes on to the next tar; false if there is none.
  bool skip_zeros() {
    while (at_ < end_ && is_zero(bytes(at_, std::min(kBlock, end_ - at_)))) at_ += kBlock;
    return at_ < end_;
  }

  // Rejects data after the end mark: a concatenated tar would otherwise be ignored silently.
  void check_end() {
    const std::uint64_t size = std::min(end_ - at_, kMaxPadding);
    if (!is_zero(bytes(at_, size)))
      throw ArchiveFault("data follows its end marker, as in concatenated archives");
  }

  const OpenFile& file_;
  const std::function<void(const ArchiveEntry&)>& visit_;
  const LinkVisit& visit_link_;
  const bool may_go_on_;
  std::uint64_t end_;
  std::uint64_t at_ = 0;
  std::uint64_t window_begin_ = 0;
  std::string window_;
  TarHeaders headers_;
};

// Writes `value` as octal digits. The NUL that ends the field is already in the zeroed header.
void put_number(std::string& header, std::size_t at, int digits, std::uint64_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(value));
  std::memcpy(header.data() + at, text, static_cast<std::size_t>(digits));
}

}  // namespace

void list_tar(const OpenFile& file, const std::function<void(const ArchiveEntry&)>& visit,
              const LinkVisit& visit_link, bool may_go_on) {
  TarWalk(file, visit, visit_link, may_go_on).walk();
}

bool is_tar(const OpenFile& file) {
  std::string header(kBlock, '\0');
  if (file.read_at(0, header.data(), header.size()) < header.size()) return false;
  return is_zero(header) || has_good_tar_checksum(header);
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
