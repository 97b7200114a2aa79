#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/system.h"
#include "base/text.h"
#include "data/dataset/archive_files.h"
#include "data/dataset/folder_entries.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

using Label = RecordListing::Label;

// Assigns names and ids to the classes of all files.
class RecordClasses {
 public:
  RecordClasses(const DatasetContext& context, const std::vector<RecordListing>& listings,
                const std::vector<std::string>& files, Dataset& set)
      : context_(context), listings_(listings), files_(files), set_(set) {}

  // Sets the classes of the set. Returns the class id of every label, by file and by the label's
  // index in that file; -1: no class.
  std::vector<std::vector<int>> ids() {
    for (std::size_t f = 0; f < listings_.size(); ++f)
      for (const Label& label : listings_[f].labels) labels_.emplace(label, f);
    const bool has_numbers = any([](const Label& label) { return label.number >= 0; });
    std::erase_if(labels_, [&](const auto& entry) {
      return entry.first.number < 0 && (has_numbers || entry.first.text.empty());
    });
    if (labels_.empty()) return ids_by([](const Label&) { return -1; });
    names_ = read_names();
    if (has_numbers) find_first_by_texts();
    const bool by_text = !set_.first_label && !names_.empty() && all_texts_are_names();
    return !has_numbers || by_text ? ids_by_text() : ids_by_number();
  }

 private:
  template <typename Test>
  bool any(Test&& test) const {
    return std::any_of(labels_.begin(), labels_.end(),
                       [&](const auto& entry) { return test(entry.first); });
  }

  std::vector<std::string> read_names() {
    const std::string& given = context_.records.classes_file;
    if (!given.empty()) {
      shown_names_ = "--classes '" + given + "'";
      return read_class_lines(given, shown_names_, context_);
    }
    if (!fs::is_directory(context_.root) || !fs::exists(context_.root / kClassesName)) return {};
    shown_names_ = kClassesName;
    set_.stamps.push_back(context_.stamp(kClassesName));
    return read_class_lines(context_.root / kClassesName, kClassesName, context_);
  }

  bool all_texts_are_names() const {
    const std::set<std::string_view> names(names_.begin(), names_.end());
    return !any([&](const Label& label) { return !names.contains(label.text); });
  }

  // Sets first_label if the class names and the records agree: with numbers counted from 0, or else
  // from 1, the text of every label is the name with its number.
  void find_first_by_texts() {
    for (const int first : {0, 1}) {
      const auto agrees = [&](const Label& label) {
        const std::int64_t id = label.number - first;
        return id >= 0 && id < static_cast<std::int64_t>(names_.size()) &&
               label.text == names_[static_cast<std::size_t>(id)];
      };
      const bool all_agree = !any([&](const Label& label) { return !agrees(label); });
      if (all_agree && !set_.first_label) set_.first_label = first;
    }
  }

  template <typename IdOf>
  std::vector<std::vector<int>> ids_by(IdOf&& id_of) const {
    std::vector<std::vector<int>> ids(listings_.size());
    for (std::size_t f = 0; f < listings_.size(); ++f)
      for (const Label& label : listings_[f].labels) ids[f].push_back(id_of(label));
    return ids;
  }

  std::vector<std::vector<int>> ids_by_text() {
    std::map<std::string_view, int> ids;
    for (std::size_t id = 0; id < names_.size(); ++id) ids.emplace(names_[id], id);
    if (names_.empty()) {
      for (const auto& [label, file] : labels_) ids.emplace(label.text, 0);
      int next = 0;
      for (auto& [text, id] : ids) {
        id = next++;
        names_.emplace_back(text);
      }
    }
    for (const auto& [label, file] : labels_) {
      if (!ids.contains(label.text)) {
        context_.fail("the class '" + excerpt(label.text) + "' of a record in '" + shown(file) +
                      "' is not in " + shown_names_ + ". Add a line for it, or remove the record.");
      }
    }
    set_.classes = names_;
    return ids_by([&](const Label& label) {
      const auto found = ids.find(label.text);
      return found == ids.end() ? -1 : found->second;
    });
  }

  std::vector<std::vector<int>> ids_by_number() {
    check_texts();
    choose_first();
    const std::int64_t first = *set_.first_label;
    const auto least = static_cast<std::size_t>(labels_.rbegin()->first.number - first + 1);
    set_.classes = names_;
    for (std::size_t id = names_.size(); id < least; ++id)
      set_.classes.push_back(std::to_string(static_cast<std::int64_t>(id) + first));
    for (const auto& [label, file] : labels_)
      if (names_.empty() && !label.text.empty())
        set_.classes[static_cast<std::size_t>(label.number - first)] = label.text;
    return ids_by([&](const Label& label) {
      return label.number < first ? -1 : static_cast<int>(label.number - first);
    });
  }

  // Checks that each class has one name and one number across all files.
  void check_texts() const {
    std::map<std::int64_t, const Entry*> by_number;
    std::map<std::string_view, const Entry*> by_text;
    for (const Entry& entry : labels_) {
      if (entry.first.text.empty()) continue;
      const auto [same_number, is_number_new] = by_number.emplace(entry.first.number, &entry);
      const auto [same_text, is_text_new] = by_text.emplace(entry.first.text, &entry);
      const Entry* other = !is_number_new ? same_number->second
                           : !is_text_new ? same_text->second
                                          : nullptr;
      if (other == nullptr) continue;
      context_.fail(
          "its records have different classes: number " + std::to_string(other->first.number) +
          " is '" + excerpt(other->first.text) + "' in '" + shown(other->second) +
          "', but number " + std::to_string(entry.first.number) + " is '" +
          excerpt(entry.first.text) + "' in '" + shown(entry.second) +
          "'. Give --classes FILE with a name for each number, or separate the datasets.");
    }
  }

  // Decides whether numbers count from 0 or from 1, and checks that all of them are in range.
  void choose_first() {
    const std::int64_t lowest = labels_.begin()->first.number;
    const auto& [highest, file] = *labels_.rbegin();
    const auto num_names = static_cast<std::int64_t>(names_.size());
    if (context_.records.first_label) set_.first_label = context_.records.first_label;
    if (!set_.first_label) {
      const bool counts_from_one = lowest >= 1 && (names_.empty() || highest.number == num_names);
      set_.first_label = counts_from_one ? 1 : 0;
      if (!counts_from_one && lowest >= 1 && highest.number < num_names) {
        set_.notes.push_back(
            "the records' labels are " + std::to_string(lowest) + " to " +
            std::to_string(highest.number) + ", and " + shown_names_ + " has " +
            std::to_string(num_names) +
            " classes: label 0 is assumed to be the first. Give --first-label 1 if it is label 1");
      }
    }
    if (lowest < *set_.first_label)
      context_.fail("a record has label 0, but --first-label is 1. Omit it.");
    if (names_.empty() || highest.number - *set_.first_label < num_names) return;
    context_.fail("a record in '" + shown(file) + "' has label " + std::to_string(highest.number) +
                  ", but " + shown_names_ + " has " + std::to_string(num_names) +
                  " classes. Add a line for each class.");
  }

  std::string shown(std::size_t file) const {
    return path_of_archive(context_, files_[file]).filename().string();
  }

  using Entry = std::pair<const Label, std::size_t>;

  const DatasetContext& context_;
  const std::vector<RecordListing>& listings_;
  const std::vector<std::string>& files_;
  Dataset& set_;
  std::map<Label, std::size_t> labels_;  // with the first file that has it; sorted by number
  std::vector<std::string> names_;
  std::string shown_names_;
};

void add_images(const std::vector<std::string>& files, const std::vector<std::vector<int>>& ids,
                std::vector<RecordListing>& listings, Dataset& set) {
  std::size_t num_several = 0;
  for (std::size_t f = 0; f < files.size(); ++f) {
    RecordListing& listing = listings[f];
    num_several += listing.num_several;
    const std::string folder = files.size() == 1 ? "" : files[f] + "/";
    for (std::size_t i = 0; i < listing.images.size(); ++i) {
      ArchiveMember member = *listing.images.member(i);
      member.archive = static_cast<std::uint16_t>(f);
      const int own = listing.images.label(i);
      int label = own < 0 ? -1 : ids[f][static_cast<std::size_t>(own)];
      // Unlabeled images are left out, so a bad image is given a class in order to be counted. A
      // record without a label may be damaged, too; its checksum has not been verified yet.
      if (set.labeled() && label < 0 &&
          (listing.damaged[i] || is_damaged_record(listing.file, member)))
        label = 0;
      set.samples.push_back({.file_name = folder + std::string(listing.images.file_name(i)),
                             .label = label,
                             .id = static_cast<std::int64_t>(set.samples.size()),
                             .size = {}},
                            member);
    }
    set.archives.push_back({files[f], std::move(listing.file)});
    if (!listing.note.empty()) set.notes.push_back(std::move(listing.note));
    listing = {};
  }
  if (num_several > 0) {
    set.notes.push_back("records with several labels: " + std::to_string(num_several) +
                        "; the first label is used as the class");
  }
}

}  // namespace

Dataset read_records(const DatasetContext& context, const std::vector<std::string>& files) {
  if (files.size() > kMaxArchives)
    context.fail("it contains more than 65535 record files. Pack the images into larger ones.");
  for (const std::string& file : files)
    if (!is_utf8(file))
      context.fail("the name of the file '" + printable(file) + "' is not UTF-8. Rename it.");
  allow_open_files(files.size());
  Dataset set;
  set.kind = Dataset::Kind::kRecords;
  set.root = context.root;
  set.stamps.push_back(context.stamp(""));
  for (const std::string& file : files)
    if (!file.empty()) set.stamps.push_back(context.stamp(file));
  check_numbered(context, files, set);
  std::vector<RecordListing> listings(files.size());
  in_parallel(files.size(), kScanThreads,
              [&](std::size_t i) { listings[i] = list_records(context, files[i]); });
  const std::vector<std::vector<int>> ids = RecordClasses(context, listings, files, set).ids();
  add_images(files, ids, listings, set);
  take_source(context, set);
  set.schema_json = schema_text(set.classes);
  set.samples_json = samples_text(set);
  return set;
}

}  // namespace kiln
