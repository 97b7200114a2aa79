#include "data/dataset/dataset.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/bytes.h"
#include "base/content_hash.h"
#include "base/files.h"
#include "base/output_folder.h"
#include "base/text.h"
#include "base/unicode_form.h"
#include "data/dataset/archive_files.h"
#include "data/dataset/folder_entries.h"
#include "data/dataset/listed_files.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

enum class RootKind { kFolder, kArchive, kRecordFile };

// Returns what the root is. Throws Error kInvalidDataset if there is nothing to read.
RootKind check_root(const DatasetContext& context) {
  if (!context.contents.empty())
    return is_record_file(OpenFile(context.contents)) ? RootKind::kRecordFile : RootKind::kArchive;
  std::error_code fault;
  const fs::file_status status = fs::status(context.root, fault);
  if (status.type() == fs::file_type::not_found) {
    const std::string guess = did_you_mean_path(context.root);
    context.fail("it does not exist." + (guess.empty() ? " Check the path." : guess));
  }
  if (fault) {
    context.fail("it cannot be read: " + fault.message() + ". Check the path and its permissions.");
  }
  if (!fs::is_directory(status)) {
    const std::string file = context.root.filename().string();
    if (has_archive_extension(file)) return RootKind::kArchive;
    if (has_record_name(file)) return RootKind::kRecordFile;
    context.fail(
        "it is a file instead of a folder of images. Give the folder, an archive that ends in "
        ".zip, .tar, .tar.gz, .tgz, .tar.bz2, .tbz2, .tar.zst or .tzst, or a record file that ends "
        "in .tfrecord, .tfrecords or .rec.");
  }
  const fs::directory_iterator first(context.root, fault);
  if (fault) {
    context.fail("it cannot be read: " + fault.message() + ". Check its permissions.");
  }
  if (is_half_replaced(context.root)) {
    context.fail(
        "it is incomplete: the program that wrote it was killed, or is still running. Write it "
        "again ('kiln pack' or 'kiln convert').");
  }
  if (first == fs::directory_iterator()) {
    context.fail("it is empty. Give a folder with one folder of images per class.");
  }
  return RootKind::kFolder;
}

}  // namespace

template <typename Visit>
void SampleTable::visit_columns(auto& samples, Visit&& visit) {
  visit(samples.names_);
  visit(samples.ends_);
  visit(samples.labels_);
  visit(samples.sizes_);
  visit(samples.ids_);
  visit(samples.members_);
}

std::string_view SampleTable::file_name(std::size_t i) const {
  const std::uint64_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(names_).substr(begin, ends_[i] - begin);
}

Sample SampleTable::operator[](std::size_t i) const {
  Sample item{.file_name = file_name(i),
              .label = labels_[i],
              .id = ids_.empty() ? static_cast<std::int64_t>(i) : ids_[i],
              .size = {}};
  if (sizes_[i].height > 0) item.size = sizes_[i];
  return item;
}

void SampleTable::push_back(const Sample& item) {
  const auto number = static_cast<std::int64_t>(size());
  if (item.id != number && ids_.empty()) {
    for (std::int64_t i = 0; i < number; ++i) ids_.push_back(i);
  }
  if (item.id != number || !ids_.empty()) ids_.push_back(item.id);
  names_ += item.file_name;
  ends_.push_back(names_.size());
  labels_.push_back(item.label);
  sizes_.push_back(item.size.value_or(ImageSize{}));
}

void SampleTable::push_back(const Sample& item, const ArchiveMember& member) {
  push_back(item);
  members_.push_back(member);
}

void SampleTable::keep_hashes() {
  hashes_.resize(size());
  changes_.resize(size());
}

void SampleTable::note_content(std::size_t i, std::string_view bytes) {
  note_hash(i, content_hash(bytes));
}

void SampleTable::note_hash(std::size_t i, std::uint64_t hash) {
  std::uint64_t known = 0;
  if (std::atomic_ref(hashes_[i]).compare_exchange_strong(known, hash) || known == hash) return;
  auto none = Change::kNone;
  std::atomic_ref(changes_[i]).compare_exchange_strong(none, Change::kFound);
}

std::vector<std::uint32_t> SampleTable::take_changed() {
  std::vector<std::uint32_t> changed;
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    auto found = Change::kFound;
    if (std::atomic_ref(changes_[i]).compare_exchange_strong(found, Change::kTaken))
      changed.push_back(static_cast<std::uint32_t>(i));
  }
  return changed;
}

std::uint64_t SampleTable::hash(std::size_t i) const {
  if (hashes_.empty()) return 0;
  auto& hash = const_cast<std::uint64_t&>(hashes_[i]);  // C++20's atomic_ref needs it non-const
  return std::atomic_ref(hash).load(std::memory_order_relaxed);
}

void SampleTable::reserve(std::size_t count, std::size_t name_bytes) {
  names_.reserve(names_.size() + name_bytes);
  ends_.reserve(size() + count);
  labels_.reserve(size() + count);
  sizes_.reserve(size() + count);
}

SampleTable SampleTable::only(const std::vector<bool>& keep) const {
  SampleTable kept;
  for (std::size_t i = 0; i < size(); ++i) {
    if (!keep[i]) continue;
    if (members_.empty()) {
      kept.push_back((*this)[i]);
    } else {
      kept.push_back((*this)[i], members_[i]);
    }
    if (!hashes_.empty()) kept.hashes_.push_back(hashes_[i]);
  }
  if (!hashes_.empty()) kept.keep_hashes();
  return kept;
}

void SampleTable::remove_unlabeled() {
  std::vector<bool> keep(size());
  for (std::size_t i = 0; i < size(); ++i) keep[i] = labels_[i] >= 0;
  *this = only(keep);
}

void SampleTable::shrink_to_fit() {
  visit_columns(*this, [](auto& column) { column.shrink_to_fit(); });
}

std::size_t SampleTable::memory_bytes() const {
  std::size_t bytes = hashes_.capacity() * sizeof(std::uint64_t) + changes_.capacity();
  visit_columns(*this, [&](const auto& column) {
    bytes += column.capacity() * sizeof(typename std::decay_t<decltype(column)>::value_type);
  });
  return bytes;
}

void SampleTable::append_to(std::string& bytes) const {
  visit_columns(*this, [&](const auto& column) { append_bytes(bytes, column); });
}

SampleTable SampleTable::take_from(std::string_view& bytes) {
  SampleTable samples;
  visit_columns(samples, [&](auto& column) { take_bytes(bytes, column); });
  const std::size_t count = samples.size();
  const auto fits = [&](std::size_t size) { return size == 0 || size == count; };
  bool good = samples.ends_.size() == count && samples.sizes_.size() == count &&
              fits(samples.ids_.size()) && fits(samples.members_.size()) &&
              (count == 0 ? 0 : samples.ends_.back()) == samples.names_.size();
  for (std::size_t i = 1; good && i < count; ++i) good = samples.ends_[i - 1] <= samples.ends_[i];
  if (!good) throw InternalError("the image list is inconsistent");
  return samples;
}

std::string describe(Dataset::Kind kind) {
  switch (kind) {
    case Dataset::Kind::kImageDirectory:
      return "ImageDirectory";
    case Dataset::Kind::kCoco:
      return "COCO folder";
    case Dataset::Kind::kClassFolders:
      return "class folders";
    case Dataset::Kind::kUnlabeledFolder:
      return "folder of images";
    case Dataset::Kind::kFileList:
      return "list of images";
    case Dataset::Kind::kArchives:
      return "archive";
    case Dataset::Kind::kRecords:
      return "record files";
    case Dataset::Kind::kStream:
      return "stream";
  }
  throw InternalError("unknown kind of dataset");
}

Dataset read_dataset(const fs::path& root, const std::string& name, const RecordOptions& records) {
  return read_of_any_kind({.root = root, .name = name, .records = records});
}

namespace {

Dataset read_folder_of_any_kind(const DatasetContext& context) {
  const FolderFiles files(context);
  if (is_image_directory(files)) return read_image_directory(context, files);
  const auto [shards, records, left_out] = find_packed_files(context);
  if (!shards.empty() && !records.empty())
    context.fail("it has archives ('" + shards[0] + "') and record files ('" + records[0] +
                 "'). Move one kind to another folder.");
  if (!shards.empty() || !records.empty()) {
    Dataset set = records.empty() ? read_archives(context, shards) : read_records(context, records);
    for (std::string& note : left_out.notes()) set.notes.push_back(std::move(note));
    return set;
  }
  std::vector<std::string> notes;
  std::optional<Dataset> coco = read_coco(context, files, notes);
  Dataset set = coco ? std::move(*coco) : read_folders(context);
  set.notes.insert(set.notes.begin(), notes.begin(), notes.end());
  return set;
}

}  // namespace

Exif exif_of(const Dataset& set, const RecordOptions& records) {
  return records.exif.value_or(set.is_image_directory ? Exif::kIgnore : Exif::kApply);
}

Dataset read_of_any_kind(const DatasetContext& context) {
  const RootKind kind = check_root(context);
  Dataset set = kind == RootKind::kArchive      ? read_archives(context, {""})
                : kind == RootKind::kRecordFile ? read_records(context, {""})
                                                : read_folder_of_any_kind(context);
  set.contents = context.contents;
  set.name = context.name;
  set.read_with = reading_text(context.records) + text_beside(context.root);
  set.exif = exif_of(set, context.records);
  if (!context.records.classes_file.empty() && set.found.labels.empty())
    use_class_names(context, set);
  if (std::string note = note_of_twins(set.classes); !note.empty())
    set.notes.push_back(std::move(note));
  return set;
}

std::string depth_advice(const Dataset& set) {
  if (set.kind != Dataset::Kind::kUnlabeledFolder) return "";
  for (const Sample& item : set.samples) {
    const fs::path class_folder = fs::path(item.file_name).parent_path();
    if (class_folder.empty()) continue;
    return "Its images are more than one folder deep: give the folder that contains the class "
           "folders, such as '" +
           (set.root / class_folder.parent_path()).string() + "'.";
  }
  return "";
}

void open_archives(Dataset& set) {
  for (ImageArchive& archive : set.archives) {
    if (archive.file.is_open()) continue;
    const bool has_records = set.kind == Dataset::Kind::kRecords;
    archive.file = open_packed({.root = set.root, .name = set.name, .contents = set.contents},
                               archive.name, has_records ? kRecordFileKind : kArchiveKind)
                       .file;
  }
}

void share_archives(const Dataset& from, Dataset& to) {
  to.archives.clear();
  for (const ImageArchive& archive : from.archives)
    to.archives.push_back({archive.name, archive.file.duplicate()});
}

Dataset part_of(const Dataset& set, const std::vector<bool>& keep) {
  Dataset part;
  part.kind = set.kind;
  part.is_image_directory = set.is_image_directory;
  part.root = set.root;
  part.name = set.name;
  part.classes = set.classes;
  part.samples = set.samples.only(keep);
  share_archives(set, part);
  part.list_name = set.list_name;
  part.schema_json = set.schema_json;
  part.samples_json = set.samples_json;
  part.read_with = set.read_with;
  part.exif = set.exif;
  part.sizes_with = set.sizes_with;
  part.found = set.found;
  part.first_label = set.first_label;
  part.stamps = set.stamps;
  return part;
}

Dataset read_labeled_dataset(const fs::path& root, const std::string& name,
                             const RecordOptions& records) {
  return read_labeled({.root = root, .name = name, .records = records});
}

Dataset read_labeled(const DatasetContext& context) {
  Dataset set = read_of_any_kind(context);
  if (!set.labeled()) {
    std::string advice = depth_advice(set);
    if (advice.empty())
      advice = "Give a folder with one folder of images per class, named after the class.";
    std::string notes;  // a COCO file that could not be read is named here
    for (const std::string& note : set.notes) notes += "; " + note;
    context.fail("its images have no labels (" + describe(set.kind) + notes + "). " + advice,
                 ErrorCode::kNotLabeledDataset);
  }
  const std::size_t listed = set.samples.size();
  if (std::any_of(set.samples.begin(), set.samples.end(),
                  [](const Sample& item) { return item.label < 0; })) {
    set.samples.remove_unlabeled();
  }
  set.samples.shrink_to_fit();
  if (set.samples.empty()) {
    context.fail(listed == 0 ? "its list is empty. Add images to it."
                             : "none of its " + std::to_string(listed) +
                                   " images has a label. Add labels, or use another dataset.");
  }
  if (set.samples.size() < listed) {
    set.notes.push_back(std::to_string(listed - set.samples.size()) + " of " +
                        std::to_string(listed) + " images have no label and are skipped");
  }
  return set;
}

std::vector<long long> counts_by_class(const Dataset& set, std::size_t num_classes) {
  std::vector<long long> counts(num_classes);
  for (std::size_t i = 0; i < set.samples.size(); ++i)
    ++counts[static_cast<std::size_t>(set.samples.label(i))];
  return counts;
}

}  // namespace kiln
