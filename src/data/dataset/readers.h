// The readers behind read_dataset() (dataset.h), one .cpp each, and the form of their errors:
// ImageDirectory, COCO, class folders, archives.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/record_options.h"
#include "data/dataset/dataset.h"

namespace kiln {

struct DatasetContext {
  std::filesystem::path root;
  std::string name;  // "Training dataset"
  // Also the images beside and below class folders, without labels; else they are skipped.
  bool every_image = false;
  RecordOptions records = {};

  // "Training dataset 'PATH': `text`".
  [[noreturn]] void fail(const std::string& text,
                         ErrorCode code = ErrorCode::kInvalidDataset) const {
    throw Error(code, name + " '" + root.string() + "': " + text);
  }
};

// The dataset in the root, of whatever kind it is.
Dataset read_of_any_kind(const DatasetContext& context);

// The labeled folders, each kind read by its own file; dataset.cpp chooses.

// The names in `_meta.yaml`, or their defaults.
struct DirectoryNames {
  std::string list, schema, samples;
};

// True if `root` has `_meta.yaml` or `images.lst`.
bool is_image_directory(const std::filesystem::path& root);
DirectoryNames read_directory_names(const DatasetContext& context);
Dataset read_image_directory(const DatasetContext& context);

// The files named in the list of an ImageDirectory, without checking that they exist.
std::vector<std::string> listed_files(const DatasetContext& context);

// The first *.json in the root, by name, that holds images and annotations; empty if there is none.
// Unreadable JSON files are named in `notes`.
std::optional<Dataset> read_coco(const DatasetContext& context, std::vector<std::string>& notes);

// Class folders one level deep; where there are none, or with `every_image`, every image at any
// depth, of which those exactly one level deep have their folder as label.
Dataset read_folders(const DatasetContext& context);

// Checks that every sample is a regular file; Error kInvalidDataset names the first ten that are
// not. `lines` (may be empty) are the line numbers of the samples in `list`. Adds the folders'
// stamps to the set.
void check_listed_files(Dataset& set, const std::vector<int>& lines, const std::string& list,
                        const DatasetContext& context);

// `_schema.json` and `images.lst` of an ImageDirectory, parsed strictly.

// The columns of a schema, found by their properties.
struct ListSchema {
  std::string image_key = "image_info";
  std::string label_key;             // empty: no label column
  std::vector<std::string> classes;  // by id; unused ids are "Others"
  std::vector<bool> is_category;     // by id; false: an unused id
};

// `file` is the schema's name in errors. Throws Error kInvalidDataset.
ListSchema parse_schema(std::string_view bytes, const std::string& file,
                        const DatasetContext& context);

struct ListedImages {
  SampleTable samples;
  std::vector<int> lines;              // of each in the list, from 1
  std::vector<int> implausible_lines;  // whose size no image may have; it counts as not given
};

// The images of a list, in its order. Does not look for them on disk. Throws Error kInvalidDataset.
ListedImages parse_image_list(std::string_view bytes, const std::string& file,
                              const ListSchema& schema, const DatasetContext& context);

// The text files of an ImageDirectory, byte for byte as the designer writes them (Python's
// json.dumps).

inline constexpr std::string_view kMetaName = "_meta.yaml";
inline constexpr std::string_view kListName = "images.lst";
inline constexpr std::string_view kSchemaName = "_schema.json";
inline constexpr std::string_view kSamplesName = "_samples.json";

std::string meta_text();

// Without classes there is no label column.
std::string schema_text(const std::vector<std::string>& classes);

// The line of one image, with its newline; `label` may be null.
std::string list_line(const Sample& item, std::string_view file_name, const std::string* label);

// The list `bytes` with other names for its images, by their position, and everything else as it
// is. Throws Error kInvalidDataset as parse_image_list().
std::string renamed_list(std::string_view bytes, const std::string& file, const ListSchema& schema,
                         const std::vector<std::string>& names, const DatasetContext& context);

inline constexpr std::size_t kNumSamples = 3;

// Those of the first three images of `set` that decode, in base64. Files larger than 64 MiB are
// left out.
std::string samples_text(const Dataset& set);
// The same of the first images as they are given; an empty one is left out.
std::string samples_text(const Dataset& set, const std::array<std::string, kNumSamples>& images);

// An open archive and the images in it.
struct ArchiveListing {
  OpenFile file;
  SampleTable images;  // members in the archive's order; `label` is an index into `labels`, or -1
  std::vector<std::string> labels;  // from the `.cls` files of a tar
  std::string note;
};

// `archive` is relative to the root, or empty. Error kInvalidDataset: damaged, truncated, a path
// that leads out of it, a name that appears twice.
ArchiveListing list_archive(const DatasetContext& context, const std::string& archive);

// The archive itself, or its unpacked contents. Error kInvalidDataset.
OpenFile open_archive(const DatasetContext& context, const std::string& archive);

// Names of numbered classes, beside shards and record files.
inline constexpr const char* kClassesName = "classes.txt";

// Why a class cannot be a line of the `classes.txt` beside shards, whose reader would take part of
// the name away: a clause, empty when it can.
std::string fault_of_class_line(std::string_view name, bool is_first);

// Labeled images inside archives: one archive with class folders in it, or a folder of shards.

// The archives and record files directly in `root`, unless there are folders or images beside them.
struct PackedFiles {
  std::vector<std::string> archives, records;
};
PackedFiles find_packed_files(const std::filesystem::path& root);

// `archives` are relative to the root, in order; "" is the root itself. An image's class comes from
// its `.cls` file in tars that have them (WebDataset: KEY.jpg and KEY.cls; the class is a number, a
// line of `classes.txt` beside the shards, or a name), otherwise from its folder, one below the
// path that all images share. Without classes, or with `every_image`: every image, in the order of
// the archives; the others have no label. Error kInvalidDataset.
Dataset read_archives(const DatasetContext& context, const std::vector<std::string>& archives);

// Record files: TFRecord and RecordIO, distinguished by their first bytes, also compressed.

// `files` as read_archives()'s. A class has the name that the records give, or else that of its
// number in a file of names (--classes, or `classes.txt` beside the files), or its number. Labels
// below 0 are none; of several the first counts. A record whose checksum is wrong is a bad image,
// whatever it says. Error kInvalidDataset.
Dataset read_records(const DatasetContext& context, const std::vector<std::string>& files);

// The file itself, or its unpacked contents. Error kInvalidDataset.
OpenFile open_record_file(const DatasetContext& context, const std::string& file);

// A record file as it is listed.
struct RecordListing {
  // What records say of a class: equal for all records of one label.
  struct Label {
    std::int64_t number = -1;  // -1: none
    std::string text;          // empty: none
    auto operator<=>(const Label&) const = default;
  };
  OpenFile file;
  SampleTable images;  // `label` is an index into `labels`, or -1
  std::vector<Label> labels;
  std::vector<bool> damaged;    // whose checksum is wrong, as far as they were looked at
  std::size_t num_several = 0;  // records with several labels
  std::string note;
};

RecordListing list_records(const DatasetContext& context, const std::string& file);

// Whether the checksum of a record is wrong, or it is too large for an image.
bool is_damaged_record(const OpenFile& file, const ArchiveMember& member);

// Gives a set whose classes have names the classes of --classes, in their order. Error
// kInvalidDataset names those that are not among them, and lines that are equal.
void use_class_names(const DatasetContext& context, Dataset& set);

}  // namespace kiln
