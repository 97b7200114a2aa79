// How datasets are read: the files of folders, archives and record files, label files, and the
// readers behind read_dataset() (dataset.h), with what they share. Labels stay as they stand in the
// data; what they mean is decided after it (dataset.h). Readers throw Error kInvalidDataset.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/dataset/dataset.h"
#include "data/image/unread_kind.h"
#include "record/vocabulary.h"

namespace kiln {

struct ArrowModule;

// Where a dataset is, and what is read of it.
struct DatasetContext {
  std::filesystem::path root;
  std::string name;  // "Training dataset"
  // Also read images next to and below class folders, without labels.
  bool every_image = false;
  bool is_for_training = false;  // as read_labeled() sets it
  // One of two sets, or a rank's part: its labels are decided again together with the others.
  bool is_part = false;
  RecordOptions records = {};
  // The bytes, if the root is a stream that has been read to its end; several tars may follow one
  // another in them.
  std::filesystem::path contents = {};

  // "Training dataset 'PATH': `text`".
  [[noreturn]] void fail(const std::string& text,
                         ErrorCode code = ErrorCode::kInvalidDataset) const {
    throw Error(code, name + " '" + root.string() + "': " + text);
  }
};

// ---- files, defined in folder_entries.cpp ----

// An entry as the folder itself describes it: entries are not opened, and only links are resolved.
struct FolderEntry {
  std::string_view name;
  // Of a link, that of its target: `regular`, `directory`, `not_found` for a broken or circular
  // link, `unknown` for pipes, devices and sockets.
  std::filesystem::file_type type = std::filesystem::file_type::unknown;
  bool may_be_link = false;  // false: definitely not a link
};

// The entries of a folder, sorted bytewise by name, without "." and "..".
class FolderEntries {
 public:
  FolderEntries() = default;
  // Throws std::filesystem::filesystem_error naming the path if the folder or a link in it cannot
  // be read.
  explicit FolderEntries(const std::filesystem::path& folder);

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<char> names_;  // the entries point into it; moving the object keeps its address
  std::vector<FolderEntry> entries_;
};

// None if the folder or a link in it cannot be read.
FolderEntries entries_if_readable(const std::filesystem::path& folder);

// For a scan: more threads than processors, since on network mounts they mostly wait.
constexpr int kScanThreads = 16;

// Whether a file or folder of this name, or any part of a path, is never data, wherever it is:
// hidden ones, and what systems and programs leave behind: __MACOSX, .ipynb_checkpoints, @eaDir,
// lost+found, .DS_Store, Thumbs.db, desktop.ini and ._*.
bool is_never_data(std::string_view name);
bool has_part_that_is_never_data(std::string_view path);

// Whether the name ends in `extension`, which is lowercase, in any case.
bool has_extension(std::string_view file_name, std::string_view extension);

// Files are recognized by name, in any case, since opening each one would take too long.

// One of image_extensions() that this machine can decode.
bool has_image_extension(std::string_view file_name);

// .zip .tar .tar.gz .tgz .tar.bz2 .tbz2 .tar.zst .tzst
bool has_archive_extension(std::string_view file_name);

// .tfrecord .tfrecords .tfrec .rec, or a shard number as in train-00000-of-01024; also with .gz
bool has_record_name(std::string_view file_name);

// Without all the extensions above: "train-00000-of-01024" for train-00000-of-01024.tar.gz.
std::string_view packed_stem(std::string_view file_name);

// "train" for train-00000-of-01024; empty if the name does not end like this.
std::string_view numbered_set_name(std::string_view file_name);

// A word of a name, and its other words, without numbers: "val" and "imagenet k" of
// imagenet1k-val-00, "train" and "set" of Trainset. Words end at what is no letter, and before a
// capital letter that follows a small one.
struct WordOfName {
  std::string word;  // in small letters; empty: there is none
  std::string rest;
};
// Finds the first one of `words` in the name.
WordOfName word_of_name(std::string_view name, std::span<const std::string_view> words);

// What names of folders and files call the sets of a dataset.
inline constexpr auto kSetWords =
    std::to_array<std::string_view>({"train", "training", "trainval", "valid", "validation", "val",
                                     "test", "testing", "dev", "eval", "evaluation", "holdout"});

// The list of supported extensions, for the end of an error message.
std::string image_names_advice();

inline constexpr std::size_t kMaxPathBytes = 4096;                      // as in Linux
inline constexpr std::uint64_t kMaxListBytes = std::uint64_t{2} << 30;  // of a list of images

// How many names a message shows of those that it counts.
inline constexpr std::size_t kMostNamed = 10;

// How many names there are, and the first few of them.
class FewNames {
 public:
  void add(std::string name);
  // `prefix` completes the names.
  void add_all(const FewNames& inside, const std::string& prefix);

  std::size_t count() const { return count_; }
  // "'a', 'b', …".
  std::string quoted() const;

 private:
  std::size_t count_ = 0;
  std::vector<std::string> names_;
};

// What a folder or archive holds beside its images: counted, and the first of each kind named, so
// that nothing is left out in silence. Defined in notes.cpp.
class LeftOut {
 public:
  // In the order of the notes.
  enum class Reason {
    kLoop,
    kBrokenLink,
    kLinkOutside,
    kRepeatedLink,
    kEmptyFolder,
    kDeepFolder,
    kDeepImage,
    kRootImage,
    kRootData,
    kRootLabels,
    kListInside,
    kBesidePhotograph,
    kRepeatedName,
    kSpareLabel,
    kSeveralLabels,
    kUnlisted,
    kHiddenImage,
    kDevice,
    kUnread,  // photos and videos that Kiln does not read, by their names
    kOther    // other files that are no images by their names
  };

  void add(Reason why, std::string name) { groups_[{why, nullptr}].add(std::move(name)); }
  // For kUnread or kOther.
  void add_file(std::string_view path);
  // `prefix` completes the names.
  void add_all(const LeftOut& inside, const std::string& prefix);
  void forget(Reason why);
  FewNames of(Reason why) const;

  // A clause for each of the reasons from `first` to `last`: "broken or circular links, skipped: 2
  // ('a', 'b')", "AVIF images, which Kiln does not read (convert with `avifdec`): 3 ('a.avif',
  // …)".
  std::vector<std::string> notes(Reason first = Reason::kLoop, Reason last = Reason::kOther) const;
  // Why there are no images: "no images", or the notes of photos and videos that are there instead.
  std::string instead_of_images() const;

 private:
  // The kind is that of kUnread.
  std::map<std::pair<Reason, const UnreadKind*>, FewNames> groups_;
};

// ---- label files, defined in label_files.cpp ----

// Which label file belongs to which image is one rule for folders, archives, shards and streams,
// stated in docs/formats.md ("Label files"). The key of a file is WebDataset's: its folder and its
// file name up to the first dot.

inline constexpr std::size_t kMaxLabelBytes = 256;

// Ends in .cls, in any case.
bool is_label_file(std::string_view name);
// "set.v2/img" for "set.v2/img.final.00.png".
std::string_view key_of(std::string_view name);
// "set.v2/img.final.00" for "set.v2/img.final.00.png".
std::string_view without_extension(std::string_view name);

// Why label files cannot be used, as a clause that names them.
class LabelFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The label in a file's text: one line, without a byte-order mark and blanks around it. Throws
// LabelFault if that is empty, too long, or more than a line.
std::string label_in(std::string_view file_name, std::string_view text);

// Collects the label files of a set, and then answers for its images.
class LabelFiles {
 public:
  // Throws LabelFault if another file of this name has another label.
  void add(std::string_view name, std::string_view text);
  bool empty() const { return files_.empty(); }
  // The distinct labels, in the order of their first file.
  const std::vector<std::string>& labels() const { return labels_; }

  // The label of the image's own file, X.cls for X.jpg; nullptr if there is none so far.
  const std::string* own_label(std::string_view image) const;

  // Of an image: another one of its key is the photograph.
  static constexpr int kBesidePhotograph = -2;
  struct Match {
    // In the order of the images: an index into labels(), kBesidePhotograph, or -1, which is no
    // label.
    std::vector<int> images;
    std::vector<std::string> spare;  // names of the label files that no image has
  };
  // `images` are all of the set. Throws LabelFault, naming both files, if two label files claim one
  // image with different labels.
  Match match(const std::vector<std::string_view>& images) const;

 private:
  struct File {
    std::string name;
    int label = 0;
  };

  static constexpr std::size_t kNoFile = -1;
  std::size_t file_named(std::string_view stem) const;

  std::vector<File> files_;
  std::unordered_map<std::string, std::size_t> by_name_;  // without the extension
  std::unordered_map<std::string, std::vector<std::size_t>> by_key_;
  std::unordered_map<std::string, int> ids_;
  std::vector<std::string> labels_;
};

// ---- what labels mean, defined in labels.cpp ----

// Combinations of classes, each with the label that stands for it.
class LabelSets {
 public:
  // `ids` in any order, also repeated.
  int label_of(std::vector<int> ids);
  const std::vector<std::vector<int>>& sets() const { return sets_; }

 private:
  std::map<std::vector<int>, int> labels_;
  std::vector<std::vector<int>> sets_;
};

struct LabelMeaning {
  std::vector<std::string> classes;   // by id
  std::vector<std::vector<int>> ids;  // of each part's labels
  std::string note;                   // empty: nothing to say
};

using LabelParts = std::vector<FoundLabels*>;

// Decides which labels are numbers of given classes (are_lines), and returns the number of the
// first class: --first-label, if given, or the only one that all numbers of both sets suit. Empty:
// there are no such numbers. Where 0 and 1 both suit, that is an error, unless `is_part`: the
// labels are decided again with others, and 0 stands until then. Throws Error kInvalidDataset, as
// meaning_of() does, naming both sides.
std::optional<int> first_number(const LabelParts& parts, std::optional<int> given,
                                bool is_part = false);

// The classes of one dataset, of which `parts` may be on several ranks, after first_number().
LabelMeaning meaning_of(const LabelParts& parts, int first);

// Decides the labels of one set that was just read, whose samples have indices into found.labels,
// or ids in the order of its classes, which becomes that of --classes. Names that are not in that
// file are an error.
void decide_labels(const DatasetContext& context, Dataset& set);
// Sets the names in `found`: those of --classes, or of classes.txt in the root, if there are any.
void read_given_names(const DatasetContext& context, FoundLabels& found);
// Where a dataset has one class for each image: as --task says.
void require_task(const RecordOptions& records, Dataset& set);

// ---- listings ----

// read_dataset() and read_labeled_dataset() of the root.
Dataset read_of_any_kind(const DatasetContext& context);
Dataset read_labeled(DatasetContext context);

// What a reader finds, before labels mean anything: a whole source, or one of several files.
struct Listing {
  // Names, places of bytes, sets, groups, weights, and in set.found the labels as they stand, which
  // the samples' labels are indices into; with --task multi-label, indices into set.labels.sets of
  // such. Without them, set.classes are names, and the samples' labels are ids. The root, the name
  // and the schema need not be set.
  Dataset set = {};
  SampleTable others = {};                // of an archive, until they have given the images labels
  std::vector<std::string> classes = {};  // the lines of an archive's own kClassesName
  std::string unread_labels = {};         // names_of_unread_labels()
  LeftOut left_out = {};
};

// The images of `files`, which are relative to the root and in order, as one listing; those of
// several are named below them. `given` has the names that labels may have.
Listing merge_listings(const DatasetContext& context, const std::vector<std::string>& files,
                       std::vector<Listing> listings, FoundLabels given);

// Gives the images of an archive or folder the labels of their label files, and leaves out those
// that are beside a photograph. Throws LabelFault.
void label_by_files(const LabelFiles& labels, Listing& listing);

// Class folders one level deep. If there are none, or with `every_image`: every image at any depth,
// of which only those exactly one level deep have their folder as label; where there are label
// files, these have the labels.
Listing list_folders(const DatasetContext& context);

// Archives, which are relative to the root and in order; "" is the root itself. An archive of an
// ImageDirectory or COCO folder is read by its list; it must be the only one. Where there are label
// files, these give an image's class as a number, a line of `classes.txt` next to the shards, or a
// name. Otherwise the class is the image's folder, one level below the path that all images share.
// Without classes, or with `every_image`: every image, in the order of the archives; images without
// a class have no label.
Listing list_archives(const DatasetContext& context, const std::vector<std::string>& archives);

// Record files: TFRecord and RecordIO, possibly compressed, told apart by their first bytes.
// `files` are as in list_archives(). The name of a class is the one in the records, or else the one
// for its number in a file of names (--classes, or `classes.txt` next to the files), or else its
// number. Labels below 0 count as no label; of several labels the first one counts, as a note says,
// but with several classes for each image, such records are refused. A record with a wrong checksum
// is a bad image, whatever it contains.
Listing list_records(const DatasetContext& context, const std::vector<std::string>& files);

// The list `context.root`, or the Parquet files in it. Defined in label_list.cpp.
Listing list_rows(const DatasetContext& context);

// The first text files that have the names of images, as far as some of the images show; empty: few
// images have one. `prefix` completes the names; `is_file`: whether there is a file of this name.
std::string names_of_unread_labels(const SampleTable& images, const std::string& prefix,
                                   const std::function<bool(const std::string& name)>& is_file);
// Notes such files, which probably have the labels that folders were taken for. For training,
// folders that are consecutive numbers or dates are no classes then, unless --classes names them.
void report_unread_labels(const DatasetContext& context, const std::string& names, Dataset& set);

// Notes folders that were taken for classes, in a folder or an archive, but have the names of sets
// or parts of a dataset. Where those are sets, they are refused for training. Names that label
// files or --classes give are classes.
void add_note_of_folders(const DatasetContext& context, Dataset& set);

// Why images of a list cannot be used ("is missing"), by position.
using ListFaults = std::map<std::size_t, std::string>;

// The files among which the list of an ImageDirectory or COCO folder finds its own: those of a
// folder, or of a folder inside an archive. Names are relative to the folder.
class ListedFiles {
 public:
  explicit ListedFiles(const DatasetContext& context) : root_(context.root) {}
  // `base` is the folder in the archive that is listed, with a trailing slash; empty: all of it.
  // The listing must outlive the object.
  ListedFiles(const Listing& archive, std::string_view base);

  bool holds(std::string_view name) const;
  // *.json directly in the folder, sorted, without those of a shard's images (`000.json` next to
  // `000.jpg`).
  std::vector<std::string> json_names() const;
  // Throws std::system_error; ImageFault for a damaged archive.
  std::string first_bytes(const std::string& name, std::size_t count) const;
  // The whole text, without a byte-order mark. Throws as first_bytes() does, and std::length_error
  // if it is longer than `max_bytes`.
  std::string read_text(const std::string& name, std::uint64_t max_bytes) const;
  // Finds the images of the set, which are as in the list, and opens the archive for it.
  ListFaults find_images(Dataset& set) const;
  // The other images, sorted. Goes through all folders, also those behind links that lead out of
  // the root, once.
  std::vector<std::string> unlisted(const SampleTable& samples) const;

 private:
  const ArchiveMember* find(std::string_view name) const;

  std::filesystem::path root_;
  const ImageArchive* archive_ = nullptr;                                   // nullptr: a folder
  std::vector<std::pair<std::string_view, const ArchiveMember*>> members_;  // sorted by name
};

// Defined in dataset_files.cpp.

// What a list means by the name of a file: the name as it is written, if there is such a file. If
// not, its backslashes are separators; and if there is one then, what a URL escapes (%20) is
// decoded.
std::string meant_name(std::string name, const std::function<bool(const std::string&)>& is_there);

// A text whose lines end with CR alone, with those of other lines.
std::string with_line_feeds(std::string text);

// Whether there is `_meta.yaml` or `images.lst`.
bool is_image_directory(const ListedFiles& files);
Listing list_image_directory(const DatasetContext& context, const ListedFiles& files);

// The files named in the list of an ImageDirectory, without checking that they exist.
std::vector<std::string> listed_files(const DatasetContext& context);

// The list of an ImageDirectory, in a folder or an archive, as text.
std::string read_image_list(const Dataset& set);

// The images of the one of the JSON files `names` that contains images and annotations; empty if
// there is none. Others that cannot be read are mentioned in `notes`. Two such files are an error,
// and one that begins like a COCO file and cannot be read.
std::optional<Listing> list_coco(const DatasetContext& context, const ListedFiles& files,
                                 const std::vector<std::string>& names,
                                 std::vector<std::string>& notes);

// Finds the samples among the files; the error names the first ten that are not there. `lines` (may
// be empty) are the line numbers of the samples in `list`. Adds a note of images that
// the list does not name.
void find_listed_images(Dataset& set, const ListedFiles& files, const std::vector<int>& lines,
                        const std::string& list, const DatasetContext& context);

// ---- lists ----

// Whether the file is a list by its name.
bool is_label_list(const std::filesystem::path& file);
// Whether the file holds a dataset by its name: an archive, a record file or a list.
bool is_dataset_file(const std::filesystem::path& file);

// The set that a word in small letters names; empty if it names none.
std::optional<ListedSet> listed_set(std::string_view word);
// Whether the images of a set are read; those of none are.
bool is_wanted(const RecordOptions& records, ListedSet set);

// Whether programs write such a text where a value is missing: "nan", "NA".
bool is_missing_value(std::string_view text);

// The images in a column of a Parquet file, one after the other, in an unnamed file. Throws Error
// kInvalidDataset.
OpenFile images_in_parquet(const DatasetContext& context, const std::string& column);

// The module with Arrow, opened when it is first needed. Throws Error, of
// which `remedy` is the last sentence.
const ArrowModule& arrow_module(const std::string& remedy);

// Defined in notes.cpp.

// A note on written labels, and names of folders, that may be no class; empty if there are none, or
// if classes are given.
std::string note_of_missing_values(const Dataset& set);

// Gives ids below the highest that no category has, whose names are empty, a name that no category
// has: "Others" as the designer does or, where a category is called so, "Others (id 0)". Returns a
// note on them; empty if there are none. `file` has the categories.
std::string name_unused_ids(std::vector<std::string>& classes, const std::string& file);

// The columns of an ImageDirectory's schema, identified by their properties.
struct ListSchema {
  std::string image_key = "image_info";
  std::string label_key;                     // empty: no label column
  std::vector<std::string> classes;          // by id
  std::unordered_map<std::string, int> ids;  // of the categories; other classes are unused ids
  std::string note;                          // on unused ids; empty: there are none
};

// Strict. `file` is the name of the schema in errors.
ListSchema parse_schema(std::string_view bytes, const std::string& file,
                        const DatasetContext& context);

struct ListedImages {
  SampleTable samples;
  std::vector<int> lines;              // line number of each sample in the list, from 1
  std::vector<int> implausible_lines;  // lines with an impossible image size, which is ignored
  std::size_t num_repeated = 0;        // lines that name an image again, with the same label
};

// "images.lst: 2 lines repeat an image, and count once"; empty if there are none.
std::string note_of_repeated(std::size_t count, const std::string& list, const char* one,
                             const char* several);

// The images of a list, in its order, each once; strict. Does not check that they exist.
ListedImages parse_image_list(std::string_view bytes, const std::string& file,
                              const ListSchema& schema, const DatasetContext& context);

// The files of an ImageDirectory, byte for byte as the designer writes them (Python's json.dumps).

inline constexpr std::string_view kMetaName = "_meta.yaml";
inline constexpr std::string_view kListName = "images.lst";
inline constexpr std::string_view kSchemaName = "_schema.json";
inline constexpr std::string_view kSamplesName = "_samples.json";

std::string meta_text();

// If `classes` is empty, there is no label column.
std::string schema_text(const std::vector<std::string>& classes);

// The line for one image, with its newline. `label` may be null.
std::string list_line(const Sample& item, std::string_view file_name, const std::string* label);

// The lines of an ImageDirectory's list that name the images with keep[i].
std::string kept_list(const Dataset& set, const std::vector<bool>& keep);

// The list of an ImageDirectory with changed images: renamed to `names`, by position, without their
// sizes, and everything else unchanged.
std::string renamed_list(const Dataset& set, const std::vector<std::string>& names);

inline constexpr std::size_t kNumSamples = 3;

// `_samples.json` for `set`: its first three images in base64, without those that do not decode or
// are larger than 64 MiB.
std::string samples_text(const Dataset& set);
// The same for given contents of these images; empty ones are left out.
std::string samples_text(const Dataset& set, const std::array<std::string, kNumSamples>& images);

// Lists a tar or zip, which is open, as the folder that unpacking it would give, without labels;
// `may_go_on` as in list_tar(). Throws ArchiveFault if it is damaged or truncated, a path leads out
// of it, or a name appears twice with two contents; ImageFault, std::system_error.
Listing list_open_archive(ImageArchive archive, bool may_go_on = false);

// For an image without a name, of a kind that image_kind() tells. An unknown kind gets .jpg, since
// most images are JPEG; the decoder will report what it finds.
std::string extension_of(std::string_view kind);

// For errors. Below, `archive` is a file of either kind, relative to the root; empty: the root.
inline constexpr const char *kArchiveKind = "archive", *kRecordFileKind = "record file";

// The archives, record files and Parquet files directly in the root, unless there are folders or
// images next to them. A broken link among them is an error.
struct PackedFiles {
  std::vector<std::string> archives, records, lists;  // lists: in Parquet
  LeftOut left_out;  // what else there is, but for files of class names and indexes of record files
};
PackedFiles find_packed_files(const DatasetContext& context);

// Checks that these files are one dataset: no file under two names or with two extensions, of one
// set (not train-0.tar and val-0.tar), and numbered files, such as train-00000-of-00008, below
// their total; returns a note if some are missing. Raises the limit on open files, since every
// archive stays open and the default limit may be 1024.
std::vector<std::string> check_packed(const DatasetContext& context, Dataset::Kind kind,
                                      const std::vector<std::string>& files);

std::filesystem::path path_of_archive(const DatasetContext& context, const std::string& archive);

// Opens an archive or record file, or unpacks its contents; then kUserError is possible, too.
struct OpenPacked {
  OpenFile file;
  bool is_unpacked = false;
};
OpenPacked open_packed(const DatasetContext& context, const std::string& archive, const char* kind);

// Whether the file begins as record files do. So may, by its length, data that looks compressed;
// but not with a correct checksum after it.
bool is_record_file(const OpenFile& file);

// "'PATH' is compressed: it uses N MiB of 'FOLDER' until this process ends (set TMPDIR to use
// another folder"; the caller appends the end of the sentence.
std::string unpacked_note(const DatasetContext& context, const std::string& archive,
                          const OpenFile& file, const char* why = "is compressed");

// In a catch clause: throws the Error for the fault, with the file's name. Other faults go on.
[[noreturn]] void fail_archive(const DatasetContext& context, const std::string& archive,
                               const char* kind);

// Calls `action`; its errors get the file's name.
template <typename Action>
auto with_archive_named(const DatasetContext& context, const std::string& archive, const char* kind,
                        Action&& action) {
  try {
    return action();
  } catch (...) {
    fail_archive(context, archive, kind);
  }
}

// Files beside shards or record files: the names of numbered classes; and what `kiln pack` made
// them of, with what it then says of an ImageDirectory.
inline constexpr const char* kClassesName = "classes.txt";
inline constexpr const char* kSourceName = "source.txt";
inline constexpr std::string_view kImageDirectorySource = "ImageDirectory\n";

// The file of this name beside the archives or record files.
std::filesystem::path path_beside(const DatasetContext& context, const char* name);

// Sets is_image_directory as the kSourceName next to the files says.
void read_source(const DatasetContext& context, Dataset& set);

// Defined in dataset_files.cpp.

// The lines of a file, without a byte-order mark, carriage returns and empty lines at the end: at
// least one, all different. `shown` is the file's name in errors.
std::vector<std::string> read_class_lines(const std::filesystem::path& file,
                                          const std::string& shown, const DatasetContext& context);
// The same of a file's contents.
std::vector<std::string> class_lines(std::string_view bytes, const std::string& shown,
                                     const DatasetContext& context);
inline constexpr std::uint64_t kMaxClassesBytes = 64 << 20;

// Why a class name cannot be a line of the `classes.txt` next to shards, because its reader would
// drop part of the name: a clause; empty if it can be.
std::string fault_of_class_line(std::string_view name, bool is_first);

}  // namespace kiln
