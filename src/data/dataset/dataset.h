// A dataset of labeled images: its files and classes, in list order. Read from an ImageDirectory, a
// COCO folder, class folders, archives, record files or lists (listing.h); no pixels are
// decoded. Faults are Error kInvalidDataset (18) or kNotLabeledDataset (24), naming file and line.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "base/content_hash.h"
#include "data/archive/archive.h"
#include "data/image/image.h"
#include "record/vocabulary.h"

namespace kiln {

// ---- what labels mean, defined in labels.cpp ----

// Which classes there are, in which order, and which an image has: docs/formats.md ("What labels
// mean") has the rule as a table. Every reader collects labels as they stand in the data, and one
// decision is made for all files and parts of a dataset, for both sets of a run and for every
// command.

constexpr std::size_t kMaxClasses = 100'000;  // ids have five digits

// Between the classes of an image in a list, and in texts.
inline constexpr char kLabelSeparator = ';';

// Which classes the labels of a dataset stand for: one each or, with --task multi-label, as many as
// an image has.
struct LabelClasses {
  // A label is an index into these: the ids of an image's classes, ascending, for each combination
  // that occurs. Empty: a label is the id of its class.
  std::vector<std::vector<int>> sets;

  // Calls `visit` with the id of each class of a label; of none for -1.
  template <typename Visit>
  void visit(int label, Visit&& visit) const {
    if (label < 0) return;
    if (sets.empty()) return visit(label);
    for (const int id : sets[static_cast<std::size_t>(label)]) visit(id);
  }
  TaskKind task() const { return sets.empty() ? TaskKind::kSingleLabel : TaskKind::kMultiLabel; }
  // How many labels there are.
  std::size_t count(std::size_t num_classes) const {
    return sets.empty() ? num_classes : sets.size();
  }
};

// What the data say about the class of an image.
struct RawLabel {
  std::string text;        // a name, or a number as it is written; empty: only `name` is known
  std::string name = {};   // of the number `text`, if the data say it
  bool is_number = false;  // `text` is a number by its form, and not the name of a class
  auto operator<=>(const RawLabel&) const = default;
};

// The labels of a dataset, or of one rank's part of it.
struct FoundLabels {
  std::vector<RawLabel> labels;     // distinct
  std::vector<std::string> places;  // "'a.tfrecord'", where each label was found; may be empty
  std::vector<std::string> names;   // the given classes, in order; empty: none are given
  std::string named_by;             // what gives them: "--classes 'FILE'", "classes.txt"
  std::string where;                // in errors: "Training dataset 'PATH'"
  bool are_names = false;           // of folders: never numbers, whatever they look like
  // Decided: whether labels are numbers of given classes, the class of each, and what is said.
  bool are_lines = false;
  std::vector<int> ids = {};
  std::string note = {};
};

// All but the places and the note.
void visit_fields(Is<RawLabel> auto& label, auto&& field) {
  fields(field, "text", label.text, "name", label.name, "is_number", label.is_number);
}
void visit_fields(Is<FoundLabels> auto& found, auto&& field) {
  fields(field, "labels", found.labels, "names", found.names, "named_by", found.named_by, "where",
         found.where, "are_names", found.are_names, "are_lines", found.are_lines, "ids", found.ids);
}

// Up to five digits; their number, or -1 for any other text.
bool is_class_number(const std::string& text);
std::int64_t class_number(const std::string& text);

// ---- images ----

// The set that a list of images puts an image into.
enum class ListedSet : std::uint8_t { kNone, kTrain, kValid, kTest };
// As --split-name has it: "train".
std::string_view set_name(ListedSet set);

// One image of a SampleTable. When read, `file_name` is valid until samples are added.
struct Sample {
  std::string_view file_name;          // as listed, relative to the root; in an archive: the member
  int label = -1;                      // as in Dataset::labels; -1: no label
  std::int64_t id = 0;                 // as listed, or a sequence number
  std::optional<ImageSize> size = {};  // if it is in the list
  // Of a list of images: a hash of the group's name, the same in every list (0: of no group), and
  // the weight of the image in the training loss.
  std::uint64_t group = 0;
  float weight = 1;
  ListedSet set = ListedSet::kNone;
};

// The images of a dataset in little memory: the name and at most 64 more bytes for each image,
// including archive members, 13 more with groups, weights and sets, and 9 more once hashes are
// kept.
class SampleTable {
 public:
  class Iterator {
   public:
    using value_type = Sample;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(const SampleTable& samples, std::size_t i) : samples_(&samples), i_(i) {}
    Sample operator*() const { return (*samples_)[i_]; }
    Iterator& operator++() {
      ++i_;
      return *this;
    }
    Iterator operator++(int) { return {*samples_, i_++}; }
    bool operator==(const Iterator& other) const { return i_ == other.i_; }

   private:
    const SampleTable* samples_ = nullptr;
    std::size_t i_ = 0;
  };

  std::size_t size() const { return labels_.size(); }
  bool empty() const { return labels_.empty(); }
  Sample operator[](std::size_t i) const;
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

  std::string_view file_name(std::size_t i) const;
  int label(std::size_t i) const { return labels_[i]; }
  const std::vector<std::int32_t>& labels() const { return labels_; }
  bool has_groups() const { return !groups_.empty(); }
  std::uint64_t group(std::size_t i) const { return groups_.empty() ? 0 : groups_[i]; }
  bool has_weights() const { return !weights_.empty(); }
  float weight(std::size_t i) const { return weights_.empty() ? 1 : weights_[i]; }
  ListedSet set(std::size_t i) const { return sets_.empty() ? ListedSet::kNone : sets_[i]; }
  // nullptr if the image is a separate file.
  const ArchiveMember* member(std::size_t i) const {
    return members_.empty() ? nullptr : &members_[i];
  }

  // Either all or none are members.
  void push_back(const Sample& item, const ArchiveMember* member = nullptr);
  // The same, with a sequence number as its id.
  void add(std::string_view file_name, int label = -1, const ArchiveMember* member = nullptr);
  // For `count` more samples whose names total `name_bytes` bytes.
  void reserve(std::size_t count, std::size_t name_bytes);
  // Hashes of the images' bytes (content_hash()), known once a loader has read them, or from
  // another rank or an earlier process of the run; 0: not yet. An image whose bytes give another
  // hash later keeps the first one, and has changed. After keep_hashes(), any number of threads may
  // call set_content(), set_hash() and hash().
  void keep_hashes();
  void set_content(std::size_t i, std::string_view bytes) { set_hash(i, content_hash(bytes)); }
  void set_hash(std::size_t i, std::uint64_t hash);
  std::uint64_t hash(std::size_t i) const;
  // The images found changed since the last call.
  std::vector<std::uint32_t> take_changed();

  void set_label(std::size_t i, int label) { labels_[i] = label; }
  void set_size(std::size_t i, ImageSize size) { sizes_[i] = size; }
  // The samples `i` with keep[i], in order, including their ids and hashes.
  SampleTable only(const std::vector<bool>& keep) const;
  void remove_unlabeled();
  void shrink_to_fit();
  std::size_t memory_bytes() const;

  // For a reader of the same build. take_from() removes what it reads from `bytes`, and throws
  // InternalError if that is not a valid table.
  void append_to(std::string& bytes) const;
  static SampleTable take_from(std::string_view& bytes);

 private:
  enum class Change : std::uint8_t { kNone, kFound, kTaken };

  static auto columns(auto& table) {
    return std::tie(table.names_, table.ends_, table.labels_, table.sizes_, table.ids_,
                    table.members_, table.groups_, table.weights_, table.sets_);
  }

  std::string names_;                // concatenated
  std::vector<std::uint64_t> ends_;  // where each name ends in names_
  std::vector<std::int32_t> labels_;
  std::vector<ImageSize> sizes_;   // height 0: unknown
  std::vector<std::int64_t> ids_;  // empty: every id is a sequence number
  std::vector<ArchiveMember> members_;
  std::vector<std::uint64_t> groups_;  // empty: every group is 0
  std::vector<float> weights_;         // empty: every weight is 1
  std::vector<ListedSet> sets_;        // empty: there are none
  // Not part of append_to(), and empty until keep_hashes().
  std::vector<std::uint64_t> hashes_;
  std::vector<Change> changes_;
};

// A file that contains many images.
struct ImageArchive {
  // Relative to the root; empty: the root itself. Of a list: the column with the images.
  std::string name;
  OpenFile file;  // stays open, so images survive if the file is deleted
};

// What a part of a dataset has in common with the whole.
struct DatasetFacts {
  enum class Kind {
    kImageDirectory,
    kCoco,
    kClassFolders,
    kUnlabeledFolder,
    kFileList,
    kArchives,
    kRecords,
    kLabelList,
    kStream
  };

  Kind kind = Kind::kImageDirectory;
  // An ImageDirectory in any form: a folder, an archive, or shards or record files that `kiln pack`
  // made of one.
  bool is_image_directory = false;
  std::filesystem::path root;
  std::string folder;  // of a list: where its images are; empty: in the root
  std::filesystem::path image_root() const {
    return folder.empty() ? root : std::filesystem::path(folder);
  }
  std::string name;  // in error messages: "Training dataset"
  std::vector<std::string>
      classes;  // by class id; of a list's ids without a category, see listing.h
  LabelClasses labels;
  std::string list_name;      // the list of an ImageDirectory, in its folder or archive; or empty
  std::string schema_json;    // `_schema.json`, as stored or as `kiln convert` would write it
  std::string samples_json;   // `_samples.json`, as `kiln convert` would write it
  Exif exif = Exif::kIgnore;  // how the images are to be decoded
  Exif sizes_with = Exif::kIgnore;  // the sizes in `samples` are those of images decoded so
  FoundLabels found;                // the labels as they stand in the data; none: folders, lists
  std::optional<int> first_label;   // the number of the first class; empty: labels are no numbers
};

struct Dataset : DatasetFacts {
  std::filesystem::path contents;      // as in DatasetContext (listing.h)
  SampleTable samples;                 // in list order
  std::vector<ImageArchive> archives;  // the archives that contain the samples
  std::int64_t num_streamed = 0;       // images per epoch of a stream, which has no samples
  std::vector<std::string> notes;  // to be logged as warnings: skipped files, circular links, …

  bool labeled() const { return !classes.empty(); }
  // Unless it is empty.
  void add_note(std::string note) {
    if (!note.empty()) notes.push_back(std::move(note));
  }
  std::size_t num_labels() const { return labels.count(classes.size()); }
  template <typename Visit>
  void for_each_class(int label, Visit&& visit) const {
    labels.visit(label, visit);
  }
  // The names of a label's classes, sorted and separated by kLabelSeparator.
  std::string label_text(int label) const;
  // Throws Error kInvalidDataset: "Training dataset 'PATH': `text`".
  [[noreturn]] void fail(const std::string& text) const;
  bool is_stream() const { return kind == Kind::kStream; }
  // For a stream: the maximum per epoch.
  std::int64_t num_images() const { return is_stream() ? num_streamed : std::ssize(samples); }
};

// "ImageDirectory", "COCO folder", …
std::string describe(Dataset::Kind kind);

// Whether the images of a dataset are turned. Dataset::exif is this when it has been read.
Exif exif_of(const Dataset& set, const RecordOptions& records);

// What is read of a list whose column `split` names the set of each image; of others everything.
RecordOptions of_sets(RecordOptions records, std::vector<std::string> sets);

// Reads the dataset in `root`. `name` is used in errors ("Training dataset", or a path).
Dataset read_dataset(const std::filesystem::path& root, const std::string& name,
                     const RecordOptions& records = {});

// Opens the archives that are not open yet. Throws Error kInvalidDataset.
void open_archives(Dataset& set);

// Gives another part of the dataset the archives of `from`, open where they are open there, so that
// nothing is unpacked twice. Throws std::system_error.
void share_archives(const Dataset& from, Dataset& to);

// A dataset with the images that have keep[i], everything else, and no notes. Throws
// std::system_error.
Dataset part_of(const Dataset& set, const std::vector<bool>& keep);

// For training: there must be labels (24) and at least one image (18); images without a label are
// left out.
Dataset read_labeled_dataset(const std::filesystem::path& root, const std::string& name,
                             const RecordOptions& records = {});

// The number of images per class. All class ids must be below `num_classes`.
std::vector<long long> counts_by_class(const Dataset& set, std::size_t num_classes);

// The labels of a set; of folders and lists whose labels are names, those of its classes.
FoundLabels found_labels(const Dataset& set);
// Decides again for both sets of a run, and maps the classes of `valid` to those of `train`.
void decide_labels(Dataset& train, Dataset& valid, std::optional<int> first_label);
// The same where other ranks have parts of the sets. `trains` and `valids` are found_labels() of
// all ranks; `rank` says which are this rank's. Streams of training images have none, and take the
// classes of the validation images.
void decide_labels(std::vector<FoundLabels> trains, std::vector<FoundLabels> valids,
                   std::size_t rank, std::optional<int> first_label, Dataset& train,
                   Dataset& valid);

// Maps the labels of `valid` to the class ids of `train`, by name. Error 18 names what `train`
// lacks.
void map_classes(const Dataset& train, Dataset& valid);

// ---- what a person should know, defined in notes.cpp ----

// Options that were given and have no effect, because they are for data of another form, are said,
// so that nobody believes in them.

// "--a, --b have no effect: `why`".
std::string without_effect(const std::vector<std::string>& options, const std::string& why);

// That, of the options of `records`, and of `others`, that none of the sets has a use for; empty:
// there are none.
std::string note_of_unused(const RecordOptions& records, const std::vector<const Dataset*>& sets,
                           std::vector<std::string> others = {});

// Adds it to the notes of the only set.
void report_unused(const RecordOptions& records, Dataset& set);

// Which folder to give, if there are no labels because images are nested deeper than class folders,
// as in the parent of train and val. Otherwise empty.
std::string depth_advice(const Dataset& set);

}  // namespace kiln
