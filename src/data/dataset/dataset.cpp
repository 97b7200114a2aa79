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
#include "data/dataset/label_list.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNamed = 10;
constexpr const char* kUnusedName = "Others";  // the designer's, of ids without a category

enum class RootKind { kFolder, kArchive, kRecordFile, kList };

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
  if (fault)
    context.fail("it cannot be read: " + fault.message() + ". Check the path and its permissions.");
  if (!fs::is_directory(status)) {
    const std::string file = context.root.filename().string();
    if (has_archive_extension(file)) return RootKind::kArchive;
    if (has_record_name(file)) return RootKind::kRecordFile;
    if (is_label_list(file)) return RootKind::kList;
    context.fail(
        "it is a file instead of a folder of images. Give the folder, an archive that ends in "
        ".zip, .tar, .tar.gz, .tgz, .tar.bz2, .tbz2, .tar.zst or .tzst, a record file that ends "
        "in .tfrecord, .tfrecords or .rec, or a list of images that ends in .csv, .tsv, .txt, "
        ".lst, .json, .jsonl, .ndjson, .manifest or .parquet.");
  }
  const fs::directory_iterator first(context.root, fault);
  if (fault) context.fail("it cannot be read: " + fault.message() + ". Check its permissions.");
  if (is_half_replaced(context.root))
    context.fail(
        "it is incomplete: the program that wrote it was killed, or is still running. Write it "
        "again ('kiln pack' or 'kiln convert').");
  if (first == fs::directory_iterator())
    context.fail("it is empty. Give a folder with one folder of images per class.");
  return RootKind::kFolder;
}

// "a, b, …": the first kMaxNamed.
std::string few_of(std::vector<std::string> names) {
  if (names.size() > kMaxNamed) {
    names.resize(kMaxNamed);
    names.emplace_back("…");
  }
  return joined(names, ", ");
}

// By id: whether images have the class.
std::vector<bool> used_classes(const Dataset& set) {
  std::vector<bool> is_used(set.classes.size());
  for (std::size_t i = 0; i < set.samples.size(); ++i)
    set.for_each_class(set.samples.label(i),
                       [&](int id) { is_used[static_cast<std::size_t>(id)] = true; });
  return is_used;
}

// Only classes without images may share a name, since labels of other datasets and of models are
// matched by it.
void require_distinct_used(const Dataset& set) {
  std::map<std::string_view, int> counts;
  for (const std::string& name : set.classes) ++counts[name];
  if (counts.size() == set.classes.size()) return;
  const std::vector<bool> is_used = used_classes(set);
  for (std::size_t id = 0; id < is_used.size(); ++id)
    if (is_used[id] && counts[set.classes[id]] > 1)
      set.fail("its images have the class '" + printable(set.classes[id]) +
               "', but other classes of its list have the same name. Give those that no image has "
               "another name.");
}

// A note on written labels, and names of folders, that may be no class; empty if there are none, or
// if classes are given.
std::string note_of_missing_values(const Dataset& set) {
  if (set.kind == Dataset::Kind::kCoco || set.kind == Dataset::Kind::kImageDirectory ||
      !set.found.named_by.empty())
    return {};
  std::vector<std::string> found;
  const std::vector<long long> counts = counts_by_class(set, set.classes.size());
  for (std::size_t id = 0; id < counts.size(); ++id)
    if (counts[id] > 0 && is_missing_value(set.classes[id]))
      found.push_back("'" + set.classes[id] + "' (" + plural(counts[id], "image", "images") + ")");
  if (found.empty()) return {};
  return "classes are named as programs write a missing value: " + few_of(std::move(found)) +
         ". Leave these images out, or their labels empty, if they have no class, or name the "
         "classes with --classes FILE";
}

// A note if each of the given names has a number beside it, and these say another order than the
// lines; empty otherwise.
std::string note_of_numbered_names(const FoundLabels& found) {
  constexpr std::string_view kDigits = "0123456789", kMarks = " \t,;:";
  const auto count = std::ssize(found.names);
  for (const bool is_first : {true, false}) {
    std::vector<std::int64_t> numbers;
    for (const std::string& name : found.names) {
      const std::size_t end =
          is_first ? name.find_first_not_of(kDigits) : name.find_last_not_of(kDigits);
      if (end == name.npos || kMarks.find(name[end]) == kMarks.npos) break;
      numbers.push_back(class_number(is_first ? name.substr(0, end) : name.substr(end + 1)));
    }
    std::vector<std::int64_t> sorted = numbers;
    std::ranges::sort(sorted);
    if (found.named_by.empty() || std::ssize(numbers) < count || sorted == numbers ||
        sorted[0] < 0 || sorted[0] > 1 || sorted.back() - sorted[0] != count - 1 ||
        std::ranges::adjacent_find(sorted) != sorted.end())
      continue;
    return found.named_by +
           " has numbers beside its names, in another order than its lines, such as '" +
           printable(found.names[0]) +
           "': a class has the number of its line, and all of the line is its name. Write the "
           "names alone, in the order of their numbers";
  }
  return {};
}

// The meaning of one set's labels, and what was assumed for both sets.
LabelMeaning with_notes(LabelMeaning meaning, const std::string& first,
                        const std::string& reading) {
  if (!first.empty()) meaning.note = first;
  if (!reading.empty())
    meaning.note = meaning.note.empty() ? reading : reading + "; " + meaning.note;
  return meaning;
}

// Gives the samples of `set` their classes. `found` are its labels, `part` its place in `meaning`.
void take(const LabelMeaning& meaning, std::size_t part, FoundLabels found, Dataset& set) {
  const std::vector<int>& ids = meaning.ids[part];
  std::vector<int> new_ids(std::max(set.classes.size(), ids.size()), -1);
  for (std::size_t i = 0; i < ids.size(); ++i)
    new_ids[found.ids.empty() ? i : static_cast<std::size_t>(found.ids[i])] = ids[i];
  renumber(new_ids, set);
  if (set.classes != meaning.classes) set.schema_json = schema_text(meaning.classes);
  set.classes = meaning.classes;
  set.first_label = meaning.first_label;
  std::erase(set.notes, found.note);
  found.ids = ids;
  found.note = meaning.note;
  if (!found.note.empty()) set.notes.push_back(found.note);
  set.found = std::move(found);
}

// Replaces the classes of a set whose labels are names by those of --classes, in their order.
// Throws Error kInvalidDataset naming classes that are not in that file.
void use_class_names(const DatasetContext& context, Dataset& set) {
  FoundLabels found = found_labels(set);
  take_given_names(context, set);
  found.names = set.found.names;
  found.named_by = set.found.named_by;
  found.where = set.found.where;
  if (set.labeled()) take(meaning_of({&found}, {}), 0, found, set);
}

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
  if (item.id != number && ids_.empty()) {
    for (std::int64_t i = 0; i < number; ++i) ids_.push_back(i);
  }
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
    kept.push_back((*this)[i], member(i));
    if (!hashes_.empty()) kept.hashes_.push_back(hashes_[i]);
  }
  if (!hashes_.empty()) kept.keep_hashes();
  return kept;
}

void SampleTable::remove_unlabeled() {
  std::vector<bool> keep(size());
  std::transform(labels_.begin(), labels_.end(), keep.begin(),
                 [](int label) { return label >= 0; });
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
  const auto fits = [&](std::size_t size) { return size == 0 || size == count; };
  bool good =
      samples.ends_.size() == count && samples.sizes_.size() == count &&
      fits(samples.ids_.size()) && fits(samples.members_.size()) && fits(samples.groups_.size()) &&
      fits(samples.weights_.size()) && fits(samples.sets_.size()) &&
      std::ranges::all_of(samples.sets_, [](ListedSet set) { return set <= ListedSet::kTest; }) &&
      (count == 0 ? 0 : samples.ends_.back()) == samples.names_.size();
  for (std::size_t i = 1; good && i < count; ++i) good = samples.ends_[i - 1] <= samples.ends_[i];
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
  const RootKind kind = check_root(context);
  Dataset set = kind == RootKind::kArchive      ? read_archives(context, {""})
                : kind == RootKind::kRecordFile ? read_records(context, {""})
                : kind == RootKind::kList       ? read_label_list(context)
                                                : read_folder_of_any_kind(context);
  if (set.schema_json.empty()) set.schema_json = schema_text(set.classes);
  set.samples_json = samples_text(set);
  set.contents = context.contents;
  set.name = context.name;
  set.exif = exif_of(set, context.records);
  if (!context.records.classes_file.empty() && set.found.labels.empty())
    use_class_names(context, set);
  require_distinct_used(set);
  for (std::string note :
       {note_of_twins(set.classes), note_of_numbered_names(set.found), note_of_missing_values(set)})
    if (!note.empty()) set.notes.push_back(std::move(note));
  take_task(context.records, set);
  if (std::string note = note_of_folders(set); !note.empty() && !context.every_image)
    set.notes.insert(set.notes.begin(), std::move(note));
  return set;
}

std::string depth_advice(const Dataset& set) {
  if (set.kind != Dataset::Kind::kUnlabeledFolder) return "";
  const auto folder_of = [](const Sample& image) {
    return fs::path(image.file_name).parent_path();
  };
  const auto is_in_folder = [&](const Sample& image) { return !folder_of(image).empty(); };
  const auto is_of_test = [](const fs::path& part) {
    const std::string word = word_of_name(part.string(), kSetWords).word;
    return !word.empty() && !word.starts_with("train");
  };
  // The example is no set to test with if there is another.
  const SampleTable& samples = set.samples;
  auto image = std::find_if(samples.begin(), samples.end(), [&](const Sample& one) {
    const fs::path folder = folder_of(one);
    return !folder.empty() && std::none_of(folder.begin(), folder.end(), is_of_test);
  });
  if (image == samples.end()) image = std::find_if(samples.begin(), samples.end(), is_in_folder);
  if (image == samples.end()) return "";
  for (const char* valid : kValidationFolders)
    if (fs::is_directory(set.root / "train") && fs::is_directory(set.root / valid))
      return "It holds two datasets: give --train-data-path '" + (set.root / "train").string() +
             "' and --valid-data-path '" + (set.root / valid).string() + "'.";
  const fs::path first = folder_of(*image);
  const auto is_namesake = [&](const Sample& one) {
    return folder_of(one).filename() == first.filename();
  };
  const auto is_elsewhere = [&](const Sample& one) { return folder_of(one) != first; };
  if (first.has_parent_path() && std::all_of(samples.begin(), samples.end(), is_namesake) &&
      std::any_of(samples.begin(), samples.end(), is_elsewhere))
    return "Its images are all in folders named '" + first.filename().string() +
           "': move them up by one folder, so that the folder of each image is its class, or "
           "give a list with their labels.";
  return "Its images are more than one folder deep: give the folder that contains the class "
         "folders, such as '" +
         (set.root / first.parent_path()).string() + "'.";
}

void open_archives(Dataset& set) {
  for (ImageArchive& archive : set.archives) {
    if (archive.file.is_open()) continue;
    if (set.kind == Dataset::Kind::kLabelList) {
      archive.file = images_in_parquet({.root = set.root, .name = set.name}, archive.name);
      continue;
    }
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
    if (advice.empty() && set.kind == Dataset::Kind::kLabelList)
      advice = "No column that it reads has labels: name theirs with --columns label=NAME.";
    if (advice.empty() && set.kind == Dataset::Kind::kRecords)
      advice = "Name the feature that holds them with --record-keys label=KEY.";
    if (advice.empty())
      advice = "Give a folder with one folder of images per class, named after the class.";
    std::string notes;  // a COCO file that could not be read is named here
    for (const std::string& note : set.notes) notes += "; " + note;
    context.fail("its images have no labels (" + describe(set.kind) + notes + "). " + advice,
                 ErrorCode::kNotLabeledDataset);
  }
  if (const FolderMeaning meaning = meaning_of_folders(set);
      meaning == FolderMeaning::kSets || meaning == FolderMeaning::kClassesAndSets)
    context.fail(joined(set.notes, "; ") + ".", ErrorCode::kNotLabeledDataset);
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
    set.for_each_class(set.samples.label(i),
                       [&](int id) { ++counts[static_cast<std::size_t>(id)]; });
  return counts;
}

void name_unused_ids(const std::vector<bool>& is_category, std::vector<std::string>& classes) {
  const std::set<std::string> taken(classes.begin(), classes.end());
  for (std::size_t id = 0; id < classes.size(); ++id) {
    if (is_category[id]) continue;
    classes[id] = kUnusedName;
    if (taken.contains(kUnusedName)) classes[id] += " (id " + std::to_string(id) + ")";
    while (taken.contains(classes[id])) classes[id] += "_";
  }
}

std::string note_of_unused_ids(const std::vector<bool>& is_category,
                               const std::vector<std::string>& classes, const std::string& file) {
  std::vector<std::string> ranges;
  std::size_t count = 0;
  for (std::size_t id = 0; id < is_category.size();) {
    std::size_t end = id;
    while (end < is_category.size() && !is_category[end]) ++end;
    if (end > id)
      ranges.push_back(std::to_string(id) +
                       (end == id + 1 ? "" : " to " + std::to_string(end - 1)));
    count += end - id;
    id = end + 1;
  }
  if (count == 0) return {};
  const std::string& name = classes[std::ranges::find(is_category, false) - is_category.begin()];
  return file + " has no category with id " + few_of(std::move(ranges)) + ": " +
         std::to_string(count) + " of the " + std::to_string(is_category.size()) +
         " classes have no images and are named '" + name +
         (count > 1 && name != kUnusedName ? "' and so on" : "'") +
         ". Number the categories from 0 without "
         "gaps to be rid of them";
}

std::string note_of_repeated(std::size_t count, const std::string& list, const char* one,
                             const char* several) {
  return list + std::to_string(count) + " " +
         (count == 1 ? one + std::string(" repeats") : several + std::string(" repeat")) +
         " an image, and " + (count == 1 ? "counts" : "count") + " once";
}

void map_classes(const Dataset& train, Dataset& valid) {
  std::unordered_map<std::string_view, int> train_ids;
  for (const std::string& name : train.classes)
    train_ids.emplace(name, static_cast<int>(&name - train.classes.data()));
  std::vector<int> new_ids(valid.classes.size(), -1);
  for (std::size_t id = 0; id < valid.classes.size(); ++id) {
    const auto found = train_ids.find(valid.classes[id]);
    if (found != train_ids.end()) new_ids[id] = found->second;
  }
  std::vector<std::string> lacking;
  std::vector<bool> is_named(valid.classes.size(), false);
  const auto require_known = [&](int id) {
    if (new_ids[id] >= 0 || is_named[id]) return;
    is_named[id] = true;
    const std::string& name = valid.classes[id];
    lacking.push_back(quoted_among(name, train.classes));
    if (lacking.back() != "'" + printable(name) + "'") return;
    if (const std::string near = closest(name, train.classes); !near.empty())
      lacking.back() += " (similar: '" + near + "')";
  };
  for (const Sample& item : valid.samples) valid.for_each_class(item.label, require_known);
  if (!lacking.empty())
    valid.fail(std::to_string(lacking.size()) +
               (lacking.size() == 1 ? " class is" : " classes are") +
               " not in the training dataset '" + train.root.string() + "': " + few_of(lacking) +
               ". Add them to the training data, or remove them here. It has " +
               quoted_names(train.classes, kMaxNamed) + ".");
  renumber(new_ids, valid);
  valid.classes = train.classes;
  valid.found = {};
}

FoundLabels found_labels(const Dataset& set) {
  FoundLabels found = set.found;
  found.where = set.name + " '" + set.root.string() + "'";
  if (!found.labels.empty()) return found;
  const std::vector<bool> is_used = used_classes(set);
  for (std::size_t id = 0; id < is_used.size(); ++id) {
    if (!is_used[id]) continue;
    found.labels.push_back({.number = -1, .text = set.classes[id]});
    found.ids.push_back(static_cast<int>(id));
  }
  using Kind = Dataset::Kind;
  found.names = set.classes;
  if (set.kind == Kind::kCoco || set.kind == Kind::kImageDirectory)
    found.named_by = "its list of classes";
  return found;
}

void settle_labels(Dataset& set, std::optional<int> first_label) {
  const std::string reading = decide_readings({&set.found});
  std::string note;
  const LabelParts parts = {&set.found};
  const std::optional<int> first = find_first_label(parts, {}, first_label, note);
  take(with_notes(meaning_of(parts, first), note, reading), 0, set.found, set);
}

void settle_labels(Dataset& train, Dataset& valid, std::optional<int> first_label) {
  settle_labels({found_labels(train)}, {found_labels(valid)}, 0, first_label, train, valid);
}

void settle_labels(std::vector<FoundLabels> trains, std::vector<FoundLabels> valids,
                   std::size_t rank, std::optional<int> first_label, Dataset& train,
                   Dataset& valid) {
  const bool leads = !train.is_stream();
  std::vector<FoundLabels*> all;
  LabelParts leaders, others;
  for (FoundLabels& found : valids) others.push_back(all.emplace_back(&found));
  if (leads)
    for (FoundLabels& found : trains) leaders.push_back(all.emplace_back(&found));
  const std::string reading = decide_readings(all);
  std::string note;
  const std::optional<int> first = find_first_label(leaders, others, first_label, note);
  const LabelMeaning meaning =
      with_notes(meaning_of(leads ? leaders : others, first), note, reading);
  if (!leads) {
    take(meaning, rank, valids[rank], valid);
    train.classes = valid.classes;
    train.schema_json = valid.schema_json;
    if (first) train.first_label = first;
    return;
  }
  take(meaning, rank, trains[rank], train);
  LabelMeaning own = meaning_of({&valids[rank]}, first);
  own.note.clear();
  take(own, 0, valids[rank], valid);
  map_classes(train, valid);
}

void take_given_names(const DatasetContext& context, Dataset& set) {
  FoundLabels& found = set.found;
  found.where = context.name + " '" + context.root.string() + "'";
  const fs::path given = context.records.classes_file;
  const fs::path beside = path_beside(context, kClassesName);
  if (!given.empty()) {
    found.named_by = "--classes " + quoted_path(given);
    found.names = read_class_lines(given, found.named_by, context);
  } else if (fs::exists(beside)) {
    found.named_by = kClassesName;
    found.names = read_class_lines(beside, found.named_by, context);
  }
}

}  // namespace kiln
