#include "data/dataset/dataset.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/bytes.h"
#include "base/content_hash.h"
#include "base/files.h"
#include "base/names.h"
#include "base/output_folder.h"
#include "base/text.h"
#include "data/dataset/listing.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// Only classes without images may share a name, since labels of other datasets and of models are
// matched by it.
void require_distinct_used(const Dataset& set) {
  std::map<std::string_view, int> counts;
  for (const std::string& name : set.classes) ++counts[name];
  if (counts.size() == set.classes.size()) return;
  const std::vector<long long> images = counts_by_class(set, set.classes.size());
  for (std::size_t id = 0; id < images.size(); ++id)
    if (images[id] > 0 && counts[set.classes[id]] > 1)
      set.fail("its images have the class '" + printable(set.classes[id]) +
               "', but other classes of its list have the same name. Give those that no image has "
               "another name.");
}

Listing list_folder_of_any_kind(const DatasetContext& context) {
  const ListedFiles files(context);
  if (is_image_directory(files)) return list_image_directory(context, files);
  auto [archives, records, lists, left_out] = find_packed_files(context);
  if (!archives.empty() && !records.empty())
    context.fail("it has archives ('" + archives[0] + "') and record files ('" + records[0] +
                 "'). Move one kind to another folder.");
  if (!archives.empty() || !records.empty() || !lists.empty()) {
    Listing listing = !archives.empty()  ? list_archives(context, archives)
                      : !records.empty() ? list_records(context, records)
                                         : list_rows(context);
    std::ranges::move(listing.left_out.notes(), std::back_inserter(listing.set.notes));
    listing.left_out = std::move(left_out);
    return listing;
  }
  std::vector<std::string> notes;
  std::optional<Listing> coco = list_coco(context, files, files.json_names(), notes);
  Listing listing = coco ? *std::move(coco) : list_folders(context);
  listing.set.notes.insert(listing.set.notes.begin(), notes.begin(), notes.end());
  return listing;
}

Listing list_of_any_kind(const DatasetContext& context) {
  const std::vector<std::string> root = {""};
  if (!context.contents.empty())
    return is_record_file(OpenFile(context.contents)) ? list_records(context, root)
                                                      : list_archives(context, root);
  std::error_code fault;
  const fs::file_status status = fs::status(context.root, fault);
  if (status.type() == fs::file_type::not_found) {
    const std::string guess = did_you_mean_path(context.root);
    context.fail("it does not exist." + (guess.empty() ? " Check the path." : guess));
  }
  if (fault)
    context.fail("it cannot be read: " + fault.message() + ". Check the path and its permissions.");
  if (!fs::is_directory(status)) {
    const std::string file = context.root.filename().string();
    if (has_archive_extension(file)) return list_archives(context, root);
    if (has_record_name(file)) return list_records(context, root);
    if (is_label_list(file)) return list_rows(context);
    context.fail(
        "it is a file whose name does not say what it is. Give a folder of images, or rename the "
        "file: a list of images ends in .csv (a table), .txt (a path and a label on each line), "
        ".tsv, .lst, .json, .jsonl, .ndjson, .manifest or .parquet, an archive in .zip, .tar, "
        ".tar.gz, .tgz, .tar.bz2, .tbz2, .tar.zst or .tzst, and a record file in .tfrecord, "
        ".tfrecords or .rec.");
  }
  const fs::directory_iterator first(context.root, fault);
  if (fault) context.fail("it cannot be read: " + fault.message() + ". Check its permissions.");
  if (is_half_replaced(context.root))
    context.fail(
        "it is incomplete: the program that wrote it was killed, or is still running. Write it "
        "again ('kiln pack' or 'kiln convert').");
  if (first == fs::directory_iterator())
    context.fail("it is empty. Give a folder with one folder of images per class.");
  return list_folder_of_any_kind(context);
}

}  // namespace

std::string_view SampleTable::file_name(std::size_t i) const {
  const std::uint64_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(names_).substr(begin, ends_[i] - begin);
}

Sample SampleTable::operator[](std::size_t i) const {
  Sample item{.file_name = file_name(i),
              .label = labels_[i],
              .id = ids_.empty() ? static_cast<std::int64_t>(i) : ids_[i],
              .group = group(i),
              .weight = weight(i),
              .set = set(i)};
  if (sizes_[i].height > 0) item.size = sizes_[i];
  return item;
}

void SampleTable::push_back(const Sample& item, const ArchiveMember* member) {
  const auto number = static_cast<std::int64_t>(size());
  if (item.id != number && ids_.empty())
    for (std::int64_t i = 0; i < number; ++i) ids_.push_back(i);
  if (item.id != number || !ids_.empty()) ids_.push_back(item.id);
  const auto keep = [&](auto& column, auto value, decltype(value) usual) {
    if (value == usual && column.empty()) return;
    column.resize(size(), usual);
    column.push_back(value);
  };
  keep(groups_, item.group, 0);
  keep(weights_, item.weight, 1);
  keep(sets_, item.set, ListedSet::kNone);
  names_ += item.file_name;
  ends_.push_back(names_.size());
  labels_.push_back(item.label);
  sizes_.push_back(item.size.value_or(ImageSize{}));
  if (member != nullptr) members_.push_back(*member);
}

void SampleTable::add(std::string_view file_name, int label, const ArchiveMember* member) {
  const auto id = static_cast<std::int64_t>(size());
  push_back({.file_name = file_name, .label = label, .id = id}, member);
}

void SampleTable::keep_hashes() {
  hashes_.resize(size());
  changes_.resize(size());
}

void SampleTable::set_hash(std::size_t i, std::uint64_t hash) {
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
    kept.push_back((*this)[i], member(i));
    if (!hashes_.empty()) kept.hashes_.push_back(hashes_[i]);
  }
  if (!hashes_.empty()) kept.keep_hashes();
  return kept;
}

void SampleTable::remove_unlabeled() {
  std::vector<bool> keep(size());
  for (std::size_t i = 0; i < size(); ++i) keep[i] = labels_[i] >= 0;
  if (std::ranges::count(keep, false) > 0) *this = only(keep);
}

void SampleTable::shrink_to_fit() {
  std::apply([](auto&... column) { (column.shrink_to_fit(), ...); }, columns(*this));
}

std::size_t SampleTable::memory_bytes() const {
  const auto bytes_of = []<typename T>(const T& column) {
    return column.capacity() * sizeof(typename T::value_type);
  };
  return std::apply([&](const auto&... column) { return (bytes_of(column) + ...); },
                    columns(*this)) +
         bytes_of(hashes_) + bytes_of(changes_);
}

void SampleTable::append_to(std::string& bytes) const {
  std::apply([&](const auto&... column) { (append_bytes(bytes, column), ...); }, columns(*this));
}

SampleTable SampleTable::take_from(std::string_view& bytes) {
  SampleTable samples;
  std::apply([&](auto&... column) { (take_bytes(bytes, column), ...); }, columns(samples));
  const std::size_t count = samples.size();
  const auto fits = [&](const auto&... column) {
    return ((column.empty() || column.size() == count) && ...);
  };
  const bool good =
      samples.ends_.size() == count && samples.sizes_.size() == count &&
      fits(samples.ids_, samples.members_, samples.groups_, samples.weights_, samples.sets_) &&
      std::ranges::all_of(samples.sets_, [](ListedSet set) { return set <= ListedSet::kTest; }) &&
      std::ranges::is_sorted(samples.ends_) &&
      (count == 0 ? 0 : samples.ends_.back()) == samples.names_.size();
  if (!good) throw InternalError("the image list is inconsistent");
  return samples;
}

void Dataset::fail(const std::string& text) const {
  DatasetContext{.root = root, .name = name}.fail(text);
}

std::string Dataset::label_text(int label) const {
  std::vector<std::string> names;
  for_each_class(label, [&](int id) { names.push_back(classes[static_cast<std::size_t>(id)]); });
  std::ranges::sort(names);
  return joined(names, std::string(1, kLabelSeparator));
}

std::string describe(Dataset::Kind kind) {
  static constexpr std::array kNames = {"ImageDirectory",   "COCO folder",    "class folders",
                                        "folder of images", "list of images", "archive",
                                        "record files",     "list of labels", "stream"};
  return kNames.at(static_cast<std::size_t>(kind));
}

Dataset read_dataset(const fs::path& root, const std::string& name, const RecordOptions& records) {
  return read_of_any_kind({.root = root, .name = name, .records = records});
}

Exif exif_of(const Dataset& set, const RecordOptions& records) {
  return records.exif.value_or(set.is_image_directory ? Exif::kIgnore : Exif::kApply);
}

Dataset read_of_any_kind(const DatasetContext& context) {
  Listing listing = list_of_any_kind(context);
  Dataset set = std::move(listing.set);
  std::ranges::move(listing.left_out.notes(), std::back_inserter(set.notes));
  set.root = context.root;
  set.name = context.name;
  set.contents = context.contents;
  decide_labels(context, set);
  if (set.schema_json.empty()) set.schema_json = schema_text(set.classes);
  set.samples_json = samples_text(set);
  set.exif = exif_of(set, context.records);
  require_distinct_used(set);
  set.add_note(note_of_twins(set.classes));
  set.add_note(note_of_missing_values(set));
  require_task(context.records, set);
  if (!context.every_image) add_note_of_folders(context, set);
  return set;
}

void open_archives(Dataset& set) {
  const DatasetContext context{.root = set.root, .name = set.name, .contents = set.contents};
  const char* kind = set.kind == Dataset::Kind::kRecords ? kRecordFileKind : kArchiveKind;
  for (ImageArchive& archive : set.archives)
    if (!archive.file.is_open())
      archive.file = set.kind == Dataset::Kind::kLabelList
                         ? images_in_parquet(context, archive.name)
                         : open_packed(context, archive.name, kind).file;
}

void share_archives(const Dataset& from, Dataset& to) {
  to.archives.clear();
  for (const ImageArchive& archive : from.archives)
    to.archives.push_back({archive.name, archive.file.duplicate()});
}

Dataset part_of(const Dataset& set, const std::vector<bool>& keep) {
  Dataset part;
  static_cast<DatasetFacts&>(part) = set;
  part.samples = set.samples.only(keep);
  share_archives(set, part);
  return part;
}

Dataset read_labeled_dataset(const fs::path& root, const std::string& name,
                             const RecordOptions& records) {
  return read_labeled({.root = root, .name = name, .records = records});
}

Dataset read_labeled(DatasetContext context) {
  context.is_for_training = true;
  Dataset set = read_of_any_kind(context);
  if (!set.labeled()) {
    std::string advice = depth_advice(set);
    if (advice.empty())
      advice = set.kind == Dataset::Kind::kLabelList
                   ? "No column that it reads has labels: name theirs with --columns label=NAME."
               : set.kind == Dataset::Kind::kRecords
                   ? "Name the feature that holds them with --record-keys label=KEY."
                   : "Give a folder with one folder of images per class, named after the class, or "
                     "--labels TABLE.csv with the columns path and label.";
    std::string notes;  // a COCO file that could not be read is named here
    for (const std::string& note : set.notes) notes += "; " + note;
    context.fail("its images have no labels (" + describe(set.kind) + notes + "). " + advice,
                 ErrorCode::kNotLabeledDataset);
  }
  const std::size_t listed = set.samples.size();
  set.samples.remove_unlabeled();
  set.samples.shrink_to_fit();
  if (set.samples.empty())
    context.fail(listed == 0 ? "its list is empty. Add images to it."
                             : "none of its " + std::to_string(listed) +
                                   " images has a label. Add labels, or use another dataset.");
  if (set.samples.size() < listed)
    set.notes.push_back(std::to_string(listed - set.samples.size()) + " of " +
                        std::to_string(listed) + " images have no label and are skipped");
  return set;
}

std::vector<long long> counts_by_class(const Dataset& set, std::size_t num_classes) {
  std::vector<long long> counts(num_classes);
  for (std::size_t i = 0; i < set.samples.size(); ++i)
    set.for_each_class(set.samples.label(i), [&](int id) { ++counts[id]; });
  return counts;
}

}  // namespace kiln
