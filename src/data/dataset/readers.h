// The readers behind read_dataset() (dataset.h), and what they share. They throw Error
// kInvalidDataset.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/dataset/dataset.h"
#include "record/vocabulary.h"

namespace kiln {

constexpr std::size_t kMaxClasses = 100'000;  // ids have five digits

struct DatasetContext {
  std::filesystem::path root;
  std::string name;  // "Training dataset"
  // Also read images next to and below class folders, without labels.
  bool every_image = false;
  bool is_for_training = false;  // as read_labeled() sets it
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

// read_dataset() and read_labeled_dataset() of the root.
Dataset read_of_any_kind(const DatasetContext& context);
Dataset read_labeled(DatasetContext context);

// Reads class folders one level deep. If there are none, or with `every_image`: every image at any
// depth, of which only those exactly one level deep have their folder as label.
Dataset read_folders(const DatasetContext& context);

// The first text files that have the names of images, as far as some of the images show; empty: few
// images have one. `prefix` completes the names; `is_file`: whether there is a file of this name.
std::string names_of_unread_labels(const SampleTable& images, const std::string& prefix,
                                   const std::function<bool(const std::string& name)>& is_file);
// Notes such files, which probably have the labels that folders were taken for. For training,
// folders that are consecutive numbers or dates are no classes then, unless --classes names them.
void tell_unread_labels(const DatasetContext& context, const std::string& names, Dataset& set);

// What the folders are that were taken for classes, in a folder or an archive, by their names.
// Names that label files or --classes give are classes.
enum class FolderMeaning {
  kClasses,
  kSets,            // alike but for the words of sets, or of what lies beside images, such as masks
  kParts,           // alike but for a number
  kClassesAndSets,  // among others, "test" and "val"
  kClassesAndSet    // one of those alone
};
FolderMeaning meaning_of_folders(const Dataset& set);
// Empty for classes.
std::string note_of_folders(const Dataset& set);

// Why images of a list cannot be used ("is missing"), by position.
using ListFaults = std::map<std::size_t, std::string>;

// The files among which the list of an ImageDirectory or COCO folder finds its own: those of a
// folder, or of a folder inside an archive. Names are relative to the folder.
class ListedFiles {
 public:
  using NameVisit = std::function<void(const std::string& name)>;

  virtual ~ListedFiles() = default;

  virtual bool holds(std::string_view name) const = 0;
  // *.json directly in the folder, sorted, without those of a shard's images (`000.json` next to
  // `000.jpg`).
  virtual std::vector<std::string> json_names() const = 0;
  // Throws std::system_error; ImageFault for a damaged archive.
  virtual std::string first_bytes(const std::string& name, std::size_t count) const = 0;
  // The whole text, without a byte-order mark. Throws as first_bytes() does, and std::length_error
  // if it is longer than `max_bytes`.
  virtual std::string read_text(const std::string& name, std::uint64_t max_bytes) const = 0;
  // Finds the images of the set, which are as in the list.
  virtual ListFaults find_images(Dataset& set) const = 0;
  // Calls `visit` with the other images, in no order.
  virtual void for_each_unlisted(const Dataset& set, const NameVisit& visit) const = 0;
};

class FolderFiles : public ListedFiles {
 public:
  explicit FolderFiles(const DatasetContext& context) : context_(context) {}
  bool holds(std::string_view name) const override;
  std::vector<std::string> json_names() const override;
  std::string first_bytes(const std::string& name, std::size_t count) const override;
  std::string read_text(const std::string& name, std::uint64_t max_bytes) const override;
  ListFaults find_images(Dataset& set) const override;
  // Goes through all folders, also those behind links that lead out of the root, once.
  void for_each_unlisted(const Dataset& set, const NameVisit& visit) const override;

 private:
  const DatasetContext& context_;
};

struct ArchiveListing;

// `base` is the folder in the archive, with a trailing slash; empty: all of it. The listing must
// outlive the object. find_images() opens the archive for the set, as `archive`.
class ArchiveFiles final : public ListedFiles {
 public:
  ArchiveFiles(const ArchiveListing& listing, std::string_view base, std::string archive);
  bool holds(std::string_view name) const override { return find(name) != nullptr; }
  std::vector<std::string> json_names() const override;
  std::string first_bytes(const std::string& name, std::size_t count) const override;
  std::string read_text(const std::string& name, std::uint64_t max_bytes) const override;
  ListFaults find_images(Dataset& set) const override;
  void for_each_unlisted(const Dataset& set, const NameVisit& visit) const override;

 private:
  const ArchiveMember* find(std::string_view name) const;

  const ArchiveListing& listing_;
  std::string archive_;
  std::vector<std::pair<std::string_view, const ArchiveMember*>> members_;  // sorted by name
};

// Whether there is `_meta.yaml` or `images.lst`.
bool is_image_directory(const ListedFiles& files);
Dataset read_image_directory(const DatasetContext& context, const ListedFiles& files);

// The files named in the list of an ImageDirectory, without checking that they exist.
std::vector<std::string> listed_files(const DatasetContext& context);

// The list of an ImageDirectory, in a folder or an archive, as text.
std::string read_image_list(const Dataset& set);

// Reads the *.json that contains images and annotations; empty if there is none. Other JSON files
// that cannot be read are mentioned in `notes`. Two such files are an error, and one that begins
// like a COCO file and cannot be read.
std::optional<Dataset> read_coco(const DatasetContext& context, const ListedFiles& files,
                                 std::vector<std::string>& notes);

// Finds the samples among the files; the error names the first ten that are not there. `lines` (may
// be empty) are the line numbers of the samples in `list`. Adds a note of images that
// the list does not name.
void find_listed_images(Dataset& set, const ListedFiles& files, const std::vector<int>& lines,
                        const std::string& list, const DatasetContext& context);

// Gives ids below the highest that no category has a name that no category has: "Others" as the
// designer does or, where a category is called so, "Others (id 0)".
void name_unused_ids(const std::vector<bool>& is_category, std::vector<std::string>& classes);
// A note on them; empty if there are none. `file` has the categories.
std::string note_of_unused_ids(const std::vector<bool>& is_category,
                               const std::vector<std::string>& classes, const std::string& file);

// The columns of an ImageDirectory's schema, identified by their properties.
struct ListSchema {
  std::string image_key = "image_info";
  std::string label_key;             // empty: no label column
  std::vector<std::string> classes;  // by id; unused ones are named by name_unused_ids()
  std::vector<bool> is_category;     // by id; false: an unused id
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

// "images.lst: 2 lines repeat an image, and count once".
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

// The lines of the list `bytes` that name the images with keep[i].
std::string kept_list(std::string_view bytes, const std::string& file, const ListSchema& schema,
                      const std::vector<bool>& keep, const DatasetContext& context);

// The list `bytes` with changed images: renamed to `names`, by position, without their sizes, and
// everything else unchanged.
std::string renamed_list(std::string_view bytes, const std::string& file, const ListSchema& schema,
                         const std::vector<std::string>& names, const DatasetContext& context);

inline constexpr std::size_t kNumSamples = 3;

// `_samples.json` for `set`: its first three images in base64, without those that do not decode or
// are larger than 64 MiB.
std::string samples_text(const Dataset& set);
// The same for given contents of these images; empty ones are left out.
std::string samples_text(const Dataset& set, const std::array<std::string, kNumSamples>& images);

// The images in an archive, or in a folder with label files.
struct ArchiveListing {
  OpenFile file;       // not open: a folder
  SampleTable images;  // in the order of the archive; `label` is an index into `labels`, or -1
  SampleTable others;  // the other files, until they have given the images labels
  std::vector<std::string> labels;   // from label files
  std::vector<std::string> classes;  // the lines of its own kClassesName; empty: there is none
  std::string unread_labels;         // names_of_unread_labels()
  LeftOut left_out;
  std::vector<std::string> notes;
};

// Lists an open tar or zip as the folder that unpacking it would give, without labels; `may_go_on`
// as in list_tar(). Throws ArchiveFault if it is damaged or truncated, a path leads out of it, or a
// name appears twice with two contents; ImageFault, std::system_error.
ArchiveListing list_open_archive(OpenFile file, bool may_go_on = false);

// A folder whose label files decide: the images of `listing`, relative to the root, get their
// labels, and those beside a photograph are left out. Throws LabelFault.
Dataset read_label_files(const DatasetContext& context, const LabelFiles& labels,
                         ArchiveListing listing);

// Reads `archives`, which are relative to the root and in order; "" is the root itself. An archive
// of an ImageDirectory or COCO folder is read by its list; it must be the only one. Where there are
// label files (found_labels.h), these give an image's class as a number, a line of `classes.txt`
// next to the shards, or a name. Otherwise the class is the image's folder, one level below the
// path that all images share. Without classes, or with `every_image`: every image, in the order of
// the archives; images without a class have no label.
Dataset read_archives(const DatasetContext& context, const std::vector<std::string>& archives);

// Record files: TFRecord and RecordIO, possibly compressed, told apart by their first bytes.
// `files` are as in read_archives(). The name of a class is the one in the records, or else the one
// for its number in a file of names (--classes, or `classes.txt` next to the files), or else its
// number. Labels below 0 count as no label; of several labels the first one counts, as a note says,
// but with several classes for each image, such records are refused. A record with a wrong checksum
// is a bad image, whatever it contains.
Dataset read_records(const DatasetContext& context, const std::vector<std::string>& files);

// For an image without a name, of a kind that image_kind() tells. An unknown kind gets .jpg, since
// most images are JPEG; the decoder will report what it finds.
std::string extension_of(std::string_view kind);

// For errors. Below, `archive` is a file of either kind, relative to the root; empty: the root.
inline constexpr const char *kArchiveKind = "archive", *kRecordFileKind = "record file";

// The archives and record files directly in the root, unless there are folders or images next to
// them. A broken link among them is an error.
struct PackedFiles {
  std::vector<std::string> archives, records;
  LeftOut left_out;  // what else there is, but for files of class names and indexes of record files
};
PackedFiles find_packed_files(const DatasetContext& context);

// A set of these files without its images. Checks that they are one dataset: no file under two
// names or with two extensions, of one set (not train-0.tar and val-0.tar), and numbered files,
// such as train-00000-of-00008, below their total; notes if some are missing. Raises the limit on
// open files, since every archive stays open and the default limit may be 1024.
Dataset begin_packed(const DatasetContext& context, Dataset::Kind kind,
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
void take_source(const DatasetContext& context, Dataset& set);

// Sets the names in set.found: those of --classes, or of classes.txt in the root, if there are any.
void take_given_names(const DatasetContext& context, Dataset& set);

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
