// The readers behind read_dataset() (dataset.h), one .cpp each, and how they say what is wrong
// with a dataset: ImageDirectory, COCO, class folders, archives.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/dataset/dataset.h"

namespace kiln {

struct DatasetContext {
  std::filesystem::path root;
  std::string name;  // "Training dataset"

  // "Training dataset 'PATH': `text`".
  [[noreturn]] void fail(const std::string& text,
                         ErrorCode code = ErrorCode::kInvalidDataset) const {
    throw Error(code, name + " '" + root.string() + "': " + text);
  }
};

// The three kinds of labeled folder, each read by its own file; dataset.cpp chooses.

// Names that `_meta.yaml` gives, or their defaults.
struct DirectoryNames {
  std::string list, schema, samples;
};

// Whether `root` says that it is an ImageDirectory: it has `_meta.yaml` or `images.lst`.
bool is_image_directory(const std::filesystem::path& root);
DirectoryNames read_directory_names(const DatasetContext& context);
Dataset read_image_directory(const DatasetContext& context);

// Files that the list of an ImageDirectory names, without a look at them.
std::vector<std::string> listed_files(const DatasetContext& context);

// The first *.json of the root that holds images and annotations, by name; nothing when there is
// none. JSON files that could not be read are named in `notes`.
std::optional<Dataset> read_coco(const DatasetContext& context, std::vector<std::string>& notes);

// Class folders one level deep, or else every image at any depth, without labels.
Dataset read_folders(const DatasetContext& context);

// Every item is a regular file; Error kInvalidDataset names the first ten that are not. `lines`
// (may be empty) are the places of the samples in `list`. Adds the folders' stamps to the set.
void check_listed_files(Dataset& set, const std::vector<int>& lines, const std::string& list,
                        const DatasetContext& context);

// `_schema.json` and `images.lst` of an ImageDirectory, read strictly from their bytes.

// What the columns of a schema say, found by their properties.
struct ListSchema {
  std::string image_key = "image_info";
  std::string label_key;             // empty: no label column
  std::vector<std::string> classes;  // by id; unused ids are "Others"
  std::vector<bool> is_category;     // by id; false: an unused id
};

// `file` is how errors call the schema. Throws Error kInvalidDataset.
ListSchema parse_schema(std::string_view bytes, const std::string& file,
                        const DatasetContext& context);

struct ListedImages {
  SampleTable samples;
  std::vector<int> lines;  // of each in the list, from 1
};

// The images of a list, in its order. Nothing is looked up on disk. Throws Error kInvalidDataset.
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

// The line of one image, with its end of line; `label` may be null.
std::string list_line(const Sample& item, std::string_view file_name, const std::string* label);

// Those of the first three images of `set` that decode, in base64. Files larger than 64 MiB are
// left out.
std::string samples_text(const Dataset& set);

// One archive, open, and the images in it.
struct ArchiveListing {
  OpenFile file;
  SampleTable images;  // members in the archive's order; `label` is an index into `labels`, or -1
  std::vector<std::string> labels;  // what the `.cls` files of a tar say
  std::string note;
};

// `archive` is relative to the root, or empty. Error kInvalidDataset: damaged, cut off, a path that
// leads out of it, a name that appears twice.
ArchiveListing list_archive(const DatasetContext& context, const std::string& archive);

// The archive itself, or what it unpacks to. Error kInvalidDataset.
OpenFile open_archive(const DatasetContext& context, const std::string& archive);

// Labeled images inside archives: one archive with class folders in it, or a folder of shards.

// The archives right inside `root` where there are some, and neither folders nor images beside
// them.
std::vector<std::string> find_shards(const std::filesystem::path& root);

// `archives` are relative to the root, in order; "" is the root itself. The class of an image is
// its
// `.cls` file where a tar has such files (WebDataset: KEY.jpg and KEY.cls; the class is a number, a
// line of `classes.txt` beside the shards, or a name), else the folder it lies in, one below what
// all images share. Without classes: every image, unlabeled. Error kInvalidDataset.
Dataset read_archives(const DatasetContext& context, const std::vector<std::string>& archives);

}  // namespace kiln
