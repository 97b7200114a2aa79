#include "data/image_index.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <stdexcept>

#include "base/error.h"
#include "base/files.h"
#include "data/image_set_bytes.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "kiln-ix1";
constexpr std::string_view kMagicOfAnyVersion = kMagic.substr(0, 7);
constexpr std::size_t kHeaderBytes = kMagic.size() + sizeof(std::uint64_t);
constexpr std::size_t kFewImages = 1000;
constexpr std::int64_t kSettledNs = 2'000'000'000;

std::string serialized(const ImageSet& set) {
  std::string body = to_bytes(set, SetParts::kWithSources);
  const std::uint64_t hash = fnv1a(body);
  std::string bytes(kMagic);
  bytes.append(reinterpret_cast<const char*>(&hash), sizeof hash);
  return bytes + body;
}

bool stays_inside(std::string_view name) {
  if (name.starts_with('/')) return false;
  for (std::size_t at = name.find(".."); at != name.npos; at = name.find("..", at + 1)) {
    const bool begins = at == 0 || name[at - 1] == '/';
    if (begins && (at + 2 == name.size() || name[at + 2] == '/')) return false;
  }
  return true;
}

// An index may come with the data, from anybody.
bool names_only_files_inside(const ImageSet& set) {
  for (std::size_t i = 0; i < set.items.size(); ++i)
    if (set.items.member(i) == nullptr && !stays_inside(set.items.file_name(i))) return false;
  return std::all_of(set.archives.begin(), set.archives.end(),
                     [](const ImageArchive& archive) { return stays_inside(archive.name); });
}

std::optional<ImageSet> parse(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes || !bytes.starts_with(kMagic)) return std::nullopt;
  std::uint64_t hash = 0;
  std::memcpy(&hash, bytes.data() + kMagic.size(), sizeof hash);
  bytes.remove_prefix(kHeaderBytes);
  if (fnv1a(bytes) != hash) return std::nullopt;
  try {
    ImageSet set = image_set_of(bytes, SetParts::kWithSources);
    if (names_only_files_inside(set)) return set;
  } catch (const InternalError&) {
  }
  return std::nullopt;
}

[[noreturn]] void refuse_to_replace(const fs::path& file) {
  throw Error(
      ErrorCode::kUserError,
      "'" + file.string() +
          "', which --index names, is no index of kiln's and would be replaced by one. Name "
          "a new file, or remove this one.");
}

// The set of `index`; else nothing, and `note` says why an index that is there cannot be used.
// `named` by the user, it is replaced only where it is one.
std::optional<ImageSet> read_index(const fs::path& index, bool named, const fs::path& root,
                                   std::string& note) {
  std::string bytes;
  try {
    bytes = read_file(index);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  if (named && !bytes.empty() && !bytes.starts_with(kMagicOfAnyVersion)) refuse_to_replace(index);
  std::optional<ImageSet> set = parse(bytes);
  if (!set) {
    note = "the index '" + index.string() + "' is damaged, or another version's: it is made anew";
    return std::nullopt;
  }
  const std::vector<std::string> changed = changed_sources(root, set->stamps);
  if (changed.empty()) return set;
  note = "the index '" + index.string() + "' is out of date ('" +
         (root / changed.front()).string() + "' has changed): it is made anew";
  return std::nullopt;
}

// A folder that changed at the very time of the scan may hold more than was seen, under one time.
bool is_settled(const ImageSet& set, std::int64_t scan_begin_ns) {
  return std::all_of(set.stamps.begin(), set.stamps.end(), [&](const SourceStamp& stamp) {
    return stamp.stamp != 0 && stamp.changed_ns < scan_begin_ns - kSettledNs;
  });
}

[[noreturn]] void fail_to_write(const fs::path& file) {
  throw Error(ErrorCode::kFailedToWriteOutputs,
              "The index '" + file.string() +
                  "' cannot be written. Check its folder and permissions, or name another file "
                  "with --index.");
}

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

fs::path index_beside(const fs::path& root) {
  if (fs::is_directory(root)) return root / ".kiln-index";
  return root.parent_path() / ("." + root.filename().string() + ".kiln-index");
}

void write_index(const fs::path& file, const ImageSet& set) {
  const fs::path temporary = file.parent_path() / (".kiln-tmp-index-" + std::to_string(::getpid()) +
                                                   "-" + std::to_string(std::random_device{}()));
  std::ofstream stream(temporary, std::ios::binary);
  stream << serialized(set);
  stream.close();
  std::error_code fault;
  if (stream) fs::rename(temporary, file, fault);
  if (stream && !fault) return;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  fail_to_write(file);
}

ImageSet read_indexed_image_set(const fs::path& root, const std::string& name,
                                const IndexUse& use) {
  const std::int64_t begin_ns = now_ns();
  const fs::path file = use.file.empty() ? index_beside(root) : use.file;
  std::string note;
  std::optional<ImageSet> found = read_index(file, !use.file.empty(), root, note);
  const bool is_new = !found;
  ImageSet set = found ? std::move(*found) : read_labeled_image_set(root, name);
  set.root = root;
  set.name = name;
  open_archives(set);
  const bool grew = use.with_sizes && scan_sizes(set, SizesWanted::kCommon) > 0;
  if ((is_new || grew) && is_settled(set, begin_ns)) {
    try {
      if (!use.file.empty() || set.items.size() >= kFewImages) write_index(file, set);
    } catch (const Error&) {
      if (!use.file.empty()) throw;
    }
  }
  if (!note.empty()) set.notes.push_back(note);
  return set;
}

}  // namespace kiln
