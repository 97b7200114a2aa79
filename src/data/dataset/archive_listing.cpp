#include <algorithm>
#include <unordered_map>

#include "base/text_file.h"
#include "data/archive/archive.h"
#include "data/dataset/archive_files.h"
#include "data/dataset/archive_names.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxLabelBytes = 256;

// Assigns each image the label in the `.cls` file with the same key.
class Labels {
 public:
  explicit Labels(ArchiveListing& listing) : listing_(listing) {}

  void add(const ArchiveEntry& entry) {
    std::string text(std::min(entry.size, kMaxLabelBytes), '\0');
    text.resize(listing_.file.read_at(entry.offset, text.data(), text.size()));
    text.erase(text.find_last_not_of(" \t\r\n") + 1);
    text = without_byte_order_mark(text);
    const auto [found, is_new] = ids_.emplace(text, static_cast<int>(listing_.labels.size()));
    if (is_new) listing_.labels.push_back(text);
    by_key_[std::string(key_of(entry.name))] = found->second;
  }

  void give() {
    if (by_key_.empty()) return;
    for (std::size_t i = 0; i < listing_.images.size(); ++i) {
      const auto found = by_key_.find(std::string(key_of(listing_.images.file_name(i))));
      if (found != by_key_.end()) listing_.images.set_label(i, found->second);
    }
  }

 private:
  ArchiveListing& listing_;
  std::unordered_map<std::string, int> ids_, by_key_;
};

void add_image(std::string_view name, const ArchiveMember& member, SampleTable& images) {
  const auto id = static_cast<std::int64_t>(images.size());
  images.push_back({.file_name = name, .label = -1, .id = id, .size = {}}, member);
}

void check_names(const SampleTable& images) {
  std::vector<std::string_view> names;
  names.reserve(images.size());
  for (const Sample& item : images) names.push_back(item.file_name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw ArchiveFault("'" + std::string(twice->substr(0, 200)) + "' appears in it twice");
}

bool is_zip(const OpenFile& file) {
  std::string first(4, '\0');
  first.resize(file.read_at(0, first.data(), first.size()));
  return first == "PK\x03\x04" || first == "PK\x05\x06";
}

struct OpenArchive {
  OpenFile file;
  bool is_unpacked = false;
};

OpenArchive open_or_unpack(const DatasetContext& context, const std::string& archive) {
  return with_archive_named(context, archive, "archive", [&]() -> OpenArchive {
    const fs::path path = path_of_archive(context, archive);
    OpenFile file(path);
    if (is_compressed(file)) return {unpacked(path), true};
    return {std::move(file), false};
  });
}

void list_members(ArchiveListing& listing) {
  if (listing.file.size() == 0) throw ArchiveFault("it is empty");
  if (is_zip(listing.file)) {
    list_zip(listing.file, [&](std::string_view name, const ArchiveMember& member) {
      if (is_archived_image(name)) add_image(name, member, listing.images);
      if (is_other_file(name)) listing.other_files.add(name);
    });
  } else if (is_tar(listing.file)) {
    Labels labels(listing);
    list_tar(listing.file, [&](const ArchiveEntry& entry) {
      if (is_label_file(entry.name)) labels.add(entry);
      if (is_other_file(entry.name)) listing.other_files.add(entry.name);
      if (!is_archived_image(entry.name)) return;
      add_image(entry.name, {.offset = entry.offset, .stored_size = entry.size, .size = entry.size},
                listing.images);
    });
    labels.give();
  } else {
    throw ArchiveFault("it is neither a zip, a tar, nor a tar compressed with gzip, bzip2 or zstd");
  }
  check_names(listing.images);
}

}  // namespace

OpenFile open_archive(const DatasetContext& context, const std::string& archive) {
  return open_or_unpack(context, archive).file;
}

ArchiveListing list_archive(const DatasetContext& context, const std::string& archive) {
  OpenArchive open = open_or_unpack(context, archive);
  ArchiveListing listing;
  listing.file = std::move(open.file);
  with_archive_named(context, archive, "archive", [&] { list_members(listing); });
  if (open.is_unpacked)
    listing.note = unpacked_note(context, archive, listing.file) +
                   "; uncompressed tars and 'kiln pack' shards need no space)";
  return listing;
}

}  // namespace kiln
