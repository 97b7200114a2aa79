// The text files of an ImageDirectory, byte for byte as the designer writes them (Python's
// json.dumps).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/image_set.h"

namespace kiln {

inline constexpr std::string_view kMetaName = "_meta.yaml";
inline constexpr std::string_view kListName = "images.lst";
inline constexpr std::string_view kSchemaName = "_schema.json";
inline constexpr std::string_view kSamplesName = "_samples.json";

std::string meta_text();

// Without classes there is no label column.
std::string schema_text(const std::vector<std::string>& classes);

// The line of one image, with its end of line; `label` may be null.
std::string list_line(const ImageItem& item, std::string_view file_name, const std::string* label);

// The first three images of `set`, in base64. Files that cannot be read, or are larger than 64 MiB,
// are left out.
std::string samples_text(const ImageSet& set);

}  // namespace kiln
