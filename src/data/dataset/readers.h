// The readers behind read_dataset() (dataset.h), one .cpp each, and the format of their errors:
// ImageDirectory, COCO, class folders, archives, record files.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/dataset/dataset.h"
#include "data/dataset/found_labels.h"
#include "data/dataset/left_out.h"
#include "record/vocabulary.h"

namespace kiln {

struct DatasetContext {
  std::filesystem::path root;
  std::string name;  // "Training dataset"
  // Also read images next to and below class folders, without labels; otherwise they are skipped.
  bool every_image = false;
  // The images' list is for an index: its sources are stamped, which lists the folders again.
  bool is_indexed = false;
  RecordOptions records = {};
  // Where the bytes are if the root is a stream, which has been read to its end: several tars may
  // follow one another in them.
  std::filesystem::path contents = {};

  // stamp_of(), for an index.
  SourceStamp stamp(const std::string& source) const {
    return is_indexed ? stamp_of(root, source) : SourceStamp{.name = source};
  }

  // "Training dataset 'PATH': `text`".
  [[noreturn]] void fail(const std::string& text,
                         ErrorCode code = ErrorCode::kInvalidDataset) const {
    throw Error(code, name + " '" + root.string() + "': " + text);
  }
};

// Reads the dataset in the root, whatever its kind.
Dataset read_of_any_kind(const DatasetContext& context);

// read_labeled_dataset() of that root.
Dataset read_labeled(const DatasetContext& context);

// Readers for labeled folders, each in its own file; dataset.cpp chooses among them.

// The file names in `_meta.yaml`, or their defaults.
struct DirectoryNames {
  std::string list, schema, samples;
};

class ListedFiles;  // listed_files.h

// True if there is `_meta.yaml` or `images.lst`.
bool is_image_directory(const ListedFiles& files);
DirectoryNames read_directory_names(const DatasetContext& context, const ListedFiles& files);
Dataset read_image_directory(const DatasetContext& context, const ListedFiles& files);

// The files named in the list of an ImageDirectory, without checking that they exist.
std::vector<std::string> listed_files(const DatasetContext& context);

// The list of an ImageDirectory, a folder or in an archive, as text. Throws Error kInvalidDataset.
std::string read_image_list(const Dataset& set);

// Reads the *.json that contains images and annotations; empty if there is none. Other JSON files
// that cannot be read are mentioned in `notes`. Throws Error kInvalidDataset for two such files,
// and for one that begins like a COCO file and cannot be read.
std::optional<Dataset> read_coco(const DatasetContext& context, const ListedFiles& files,
                                 std::vector<std::string>& notes);

// An ImageDirectory, or else a COCO folder; empty if it is neither.
std::optional<Dataset> read_by_list(const DatasetContext& context, const ListedFiles& files,
                                    std::vector<std::string>& notes);

// Reads class folders one level deep. If there are none, or with `every_image`: every image at any
// depth, of which only those exactly one level deep have their folder as label.
Dataset read_folders(const DatasetContext& context);

// Finds the samples among the files; Error kInvalidDataset names the first ten that are not there.
// `lines` (may be empty) are the line numbers of the samples in `list`. Adds the folders' stamps to
// the set.
void find_listed_images(Dataset& set, const ListedFiles& files, const std::vector<int>& lines,
                        const std::string& list, const DatasetContext& context);

// `_schema.json` and `images.lst` of an ImageDirectory, parsed strictly.

// The columns of a schema, identified by their properties.
struct ListSchema {
  std::string image_key = "image_info";
  std::string label_key;             // empty: no label column
  std::vector<std::string> classes;  // by id; unused ids are named "Others"
  std::vector<bool> is_category;     // by id; false: an unused id
};

// `file` is the name of the schema in errors. Throws Error kInvalidDataset.
ListSchema parse_schema(std::string_view bytes, const std::string& file,
                        const DatasetContext& context);

struct ListedImages {
  SampleTable samples;
  std::vector<int> lines;              // line number of each sample in the list, from 1
  std::vector<int> implausible_lines;  // lines with an impossible image size, which is ignored
};

// The images of a list, in its order. Does not check that they exist. Throws Error kInvalidDataset.
ListedImages parse_image_list(std::string_view bytes, const std::string& file,
                              const ListSchema& schema, const DatasetContext& context);

// The text files of an ImageDirectory, byte for byte as the designer writes them (Python's
// json.dumps).

inline constexpr std::string_view kMetaName = "_meta.yaml";
inline constexpr std::string_view kListName = "images.lst";
inline constexpr std::string_view kSchemaName = "_schema.json";
inline constexpr std::string_view kSamplesName = "_samples.json";

std::string meta_text();

// If `classes` is empty, there is no label column.
std::string schema_text(const std::vector<std::string>& classes);

// The line for one image, with its newline. `label` may be null.
std::string list_line(const Sample& item, std::string_view file_name, const std::string* label);

// The list `bytes` with the images renamed to `names`, by position, and everything else unchanged.
// Throws Error kInvalidDataset as parse_image_list() does.
std::string renamed_list(std::string_view bytes, const std::string& file, const ListSchema& schema,
                         const std::vector<std::string>& names, const DatasetContext& context);

inline constexpr std::size_t kNumSamples = 3;

// `_samples.json` for `set`: its first three images in base64, without those that do not decode.
// Files larger than 64 MiB are left out.
std::string samples_text(const Dataset& set);
// The same for the given contents of the first images; empty ones are left out.
std::string samples_text(const Dataset& set, const std::array<std::string, kNumSamples>& images);

// The images in an archive, or in a folder with label files.
struct ArchiveListing {
  OpenFile file;       // not open: a folder
  SampleTable images;  // in the order of the archive; `label` is an index into `labels`, or -1
  SampleTable others;  // the other files, until label_images()
  std::vector<std::string> labels;   // from label files
  std::vector<std::string> classes;  // the lines of its own kClassesName; empty: there is none
  LeftOut left_out;
  std::vector<std::string> notes;
};

// Gives the images their labels, and leaves out those that are beside a photograph. Throws
// LabelFault.
void take_labels(const LabelFiles& labels, ArchiveListing& listing);

// A folder whose label files decide: the images of `listing`, relative to the root.
Dataset read_label_files(const DatasetContext& context, ArchiveListing listing);

// Lists an archive as the folder that unpacking it would give, without labels. `archive` is
// relative to the root, or empty. Throws Error kInvalidDataset if the archive is damaged or
// truncated, a path leads out of it, or a name appears twice with two contents.
ArchiveListing list_archive(const DatasetContext& context, const std::string& archive);
// The same for a tar or zip that is open; `may_go_on` as in list_tar(). Throws ArchiveFault,
// ImageFault, std::system_error.
ArchiveListing list_open_archive(OpenFile file, bool may_go_on = false);
// take_labels() from the label files among `others`, which is then empty. Throws Error
// kInvalidDataset.
void label_images(const DatasetContext& context, const std::string& archive,
                  ArchiveListing& listing);

// The file next to shards or record files that names numbered classes.
inline constexpr const char* kClassesName = "classes.txt";

// Why a class name cannot be a line of the `classes.txt` next to shards, because its reader would
// drop part of the name: a clause; empty if it can be.
std::string fault_of_class_line(std::string_view name, bool is_first);

// Labeled images inside archives: one archive with class folders in it, or a folder of shards.

// The archives and record files directly in the root, unless there are folders or images next to
// them. Throws Error kInvalidDataset if one of them is a broken link.
struct PackedFiles {
  std::vector<std::string> archives, records;
  LeftOut left_out;  // what else there is, but for files of class names and indexes of record files
};
PackedFiles find_packed_files(const DatasetContext& context);

// The file next to shards or record files that says what `kiln pack` made them of, and what it then
// says of an ImageDirectory.
inline constexpr const char* kSourceName = "source.txt";
inline constexpr std::string_view kImageDirectorySource = "ImageDirectory\n";

// Reads `archives`, which are relative to the root and in order; "" is the root itself. An archive
// of an ImageDirectory or COCO folder is read by its list; it must be the only one. Where there are
// label files (found_labels.h), these give an image's class as a number, a line of `classes.txt`
// next to the shards, or a name. Otherwise the class is the image's folder,
// one level below the path that all images share. Without classes, or with `every_image`: every
// image, in the order of the archives; images without a class have no label. Throws Error
// kInvalidDataset.
Dataset read_archives(const DatasetContext& context, const std::vector<std::string>& archives);

// Record files: TFRecord and RecordIO, possibly compressed, told apart by their first bytes.

// `files` are as in read_archives(). The name of a class is the one in the records, or else the one
// for its number in a file of names (--classes, or `classes.txt` next to the files), or else its
// number. Labels below 0 count as no label; of several labels the first one counts. A record with a
// wrong checksum is a bad image, whatever it contains. Throws Error kInvalidDataset.
Dataset read_records(const DatasetContext& context, const std::vector<std::string>& files);

// The listed contents of a record file.
struct RecordListing {
  OpenFile file;
  SampleTable images;  // `label` is an index into `labels`, or -1
  std::vector<RawLabel> labels;
  std::vector<bool> damaged;    // wrong checksum, for the records whose checksum was verified
  std::size_t num_several = 0;  // records with several labels
  std::size_t num_headers = 0;  // RecordIO: records of several numbers without an image
  std::string note;
};

RecordListing list_records(const DatasetContext& context, const std::string& file);

// Whether the record has a wrong checksum or is too large for an image.
bool is_damaged_record(const OpenFile& file, const ArchiveMember& member);

// A note on ids below the highest that no category of `file` has; empty if there are none.
std::string note_of_unused_ids(const std::vector<bool>& is_category, const std::string& file);

// Sets the names in set.found: those of --classes, or of classes.txt in the root, if there are any.
// Throws Error kInvalidDataset.
void take_given_names(const DatasetContext& context, Dataset& set);

// Replaces the classes of a set whose labels are names by those of --classes, in their order.
// Throws Error kInvalidDataset naming classes that are not in that file.
void use_class_names(const DatasetContext& context, Dataset& set);

}  // namespace kiln
