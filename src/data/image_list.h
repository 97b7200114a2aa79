// `_schema.json` and `images.lst` of an ImageDirectory, read strictly from their bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset_fault.h"
#include "data/image_set.h"

namespace kiln {

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
  ImageItems items;
  std::vector<int> lines;  // of each in the list, from 1
};

// The images of a list, in its order. Nothing is looked up on disk. Throws Error kInvalidDataset.
ListedImages parse_image_list(std::string_view bytes, const std::string& file,
                              const ListSchema& schema, const DatasetContext& context);

// Why a path written in a list is not one of a file inside its directory; empty when it is.
std::string fault_of_listed_path(std::string_view path);

}  // namespace kiln
