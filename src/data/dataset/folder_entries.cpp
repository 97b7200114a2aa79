#include "data/dataset/listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/text.h"
#include "data/image/codec.h"
#include "data/image/image.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& place, int error) {
  throw fs::filesystem_error("", place, std::error_code(error, std::generic_category()));
}

FolderEntry entry_of(DIR* folder, const fs::path& path, const dirent& entry) {
  using Type = fs::file_type;
  const std::string_view name = entry.d_name;
  if (entry.d_type == DT_REG) return {name, Type::regular, false};
  if (entry.d_type == DT_DIR) return {name, Type::directory, false};
  if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return {name, Type::unknown, false};
  struct stat info {};  // a link, or the file system does not report types
  if (::fstatat(::dirfd(folder), entry.d_name, &info, 0) != 0) {
    if (errno == EACCES) fail(path / entry.d_name, errno);
    return {name, Type::not_found, true};
  }
  if (S_ISDIR(info.st_mode)) return {name, Type::directory, true};
  return {name, S_ISREG(info.st_mode) ? Type::regular : Type::unknown, true};
}

std::size_t shared_beginning(const std::vector<FolderEntry>& entries) {
  std::string_view shared = entries.empty() ? std::string_view() : entries.front().name;
  for (const FolderEntry& entry : entries) {
    const auto [here, there] = std::ranges::mismatch(shared, entry.name);
    shared = {shared.begin(), here};
  }
  return shared.size();
}

// Names in a folder often share a prefix, and the eight bytes after it distinguish nearly all of
// them. Comparing these first halves the time that sorting takes.
void sort_by_name(std::vector<FolderEntry>& entries) {
  struct Keyed {
    std::uint64_t key = 0;
    FolderEntry entry;
  };
  const std::size_t skipped = shared_beginning(entries);
  std::vector<Keyed> keyed;
  keyed.reserve(entries.size());
  for (const FolderEntry& entry : entries) {
    std::uint64_t key = 0;
    std::memcpy(&key, entry.name.data() + skipped,
                std::min(sizeof key, entry.name.size() - skipped));
    keyed.push_back({__builtin_bswap64(key), entry});
  }
  std::ranges::sort(keyed, [](const Keyed& a, const Keyed& b) {
    return a.key != b.key ? a.key < b.key : a.entry.name < b.entry.name;
  });
  std::ranges::transform(keyed, entries.begin(), &Keyed::entry);
}

// `known` is lowercase.
bool equal_in_any_case(std::string_view known, std::string_view found) {
  return std::ranges::equal(
      known, found, [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
}

constexpr std::array<std::string_view, 8> kArchiveExtensions = {
    ".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.zst", ".tzst"};
constexpr std::array<std::string_view, 4> kRecordExtensions = {".tfrecord", ".tfrecords", ".tfrec",
                                                               ".rec"};

std::string_view without(std::string_view file_name, std::string_view extension) {
  if (has_extension(file_name, extension)) file_name.remove_suffix(extension.size());
  return file_name;
}

// In small letters, without what is no letter. Characters beyond ASCII are letters.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  bool is_in_word = false, is_after_small = false;
  for (const char c : name) {
    const bool is_large = c >= 'A' && c <= 'Z';
    const bool is_small = (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80;
    if ((is_small && !is_in_word) || (is_large && (!is_in_word || is_after_small)))
      words.emplace_back();
    is_in_word = is_large || is_small;
    is_after_small = is_small;
    if (is_in_word) words.back() += in_small_letters({&c, 1});
  }
  return words;
}

}  // namespace

FolderEntries::FolderEntries(const fs::path& folder) {
  struct Close {
    void operator()(DIR* open) const { ::closedir(open); }
  };
  const std::unique_ptr<DIR, Close> open(::opendir(folder.c_str()));
  if (!open) fail(folder, errno);
  for (errno = 0; const dirent* entry = ::readdir(open.get()); errno = 0) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    names_.insert(names_.end(), name.begin(), name.end());
    entries_.push_back(entry_of(open.get(), folder, *entry));
  }
  if (errno != 0) fail(folder, errno);
  const char* at = names_.data();
  for (FolderEntry& entry : entries_) {
    entry.name = {at, entry.name.size()};
    at += entry.name.size();
  }
  sort_by_name(entries_);
}

FolderEntries entries_if_readable(const fs::path& folder) try {
  return FolderEntries(folder);
} catch (const fs::filesystem_error&) {
  return {};
}

bool is_never_data(std::string_view name) {
  return name.starts_with('.') || name == "lost+found" || name == "__MACOSX" || name == "@eaDir" ||
         equal_in_any_case("thumbs.db", name) || equal_in_any_case("desktop.ini", name);
}

bool has_part_that_is_never_data(std::string_view path) {
  while (true) {
    const std::size_t end = path.find('/');
    if (is_never_data(path.substr(0, end))) return true;
    if (end == path.npos) return false;
    path.remove_prefix(end + 1);
  }
}

bool has_extension(std::string_view file_name, std::string_view extension) {
  return file_name.size() >= extension.size() &&
         equal_in_any_case(extension, file_name.substr(file_name.size() - extension.size()));
}

bool has_image_extension(std::string_view file_name) {
  const std::size_t dot = file_name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string_view extension = file_name.substr(dot);
  return std::ranges::any_of(image_extensions(), [&](std::string_view known) {
    return equal_in_any_case(known, extension) &&
           (!known.starts_with(".h") || codec::heic_fault().empty());  // .heic, .heif, .hif
  });
}

std::string image_names_advice() {
  return "images end in " + join_choices(image_extensions()) + ".";
}

bool has_archive_extension(std::string_view file_name) {
  return std::ranges::any_of(
      kArchiveExtensions, [&](std::string_view known) { return has_extension(file_name, known); });
}

bool has_record_name(std::string_view file_name) {
  const std::string_view name = without(file_name, ".gz");
  return !numbered_set_name(name).empty() ||
         std::ranges::any_of(kRecordExtensions,
                             [&](std::string_view known) { return has_extension(name, known); });
}

std::string_view packed_stem(std::string_view file_name) {
  std::string_view stem = without(file_name, ".gz");
  for (const std::string_view known : kArchiveExtensions) stem = without(stem, known);
  for (const std::string_view known : kRecordExtensions) stem = without(stem, known);
  return stem;
}

std::string_view numbered_set_name(std::string_view file_name) {
  constexpr std::string_view kForm = "-00000-of-00000";
  const std::string_view name = without(file_name, ".gz");
  if (name.size() <= kForm.size()) return {};
  const std::string_view end = name.substr(name.size() - kForm.size());
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool is_digit = end[i] >= '0' && end[i] <= '9';
    if (kForm[i] == '0' ? !is_digit : end[i] != kForm[i]) return {};
  }
  return name.substr(0, name.size() - kForm.size());
}

WordOfName word_of_name(std::string_view name, std::span<const std::string_view> words) {
  constexpr std::string_view kEnd = "set";  // trainset is a set as training_set is
  const auto is_known = [&](std::string_view word) { return std::ranges::count(words, word) > 0; };
  WordOfName found;
  for (std::string word : words_of(name)) {
    const std::string begin = word.substr(0, word.size() - std::min(kEnd.size(), word.size()));
    if (found.word.empty() && is_known(word)) {
      found.word = word;
      continue;
    }
    if (found.word.empty() && word.ends_with(kEnd) && is_known(begin)) {
      found.word = begin;
      word = kEnd;
    }
    found.rest += (found.rest.empty() ? "" : " ") + word;
  }
  return found;
}

}  // namespace kiln
