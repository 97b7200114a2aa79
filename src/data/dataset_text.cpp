#include "data/dataset_text.h"

#include <algorithm>
#include <cstdint>
#include <exception>

#include "base/base64.h"
#include "data/image_bytes.h"
#include "data/strict_json.h"

namespace kiln {
namespace {

constexpr std::size_t kNumSamples = 3;
constexpr std::size_t kMaxSampleBytes = 64 << 20;

constexpr std::string_view kImageAndIdColumns = R"({
  "columnAttributes": [
    {
      "name": "image",
      "type": "Bytes",
      "isFeature": true,
      "elementType": {
        "typeName": "bytes",
        "isNullable": false
      },
      "properties": {
        "mime_type": "image/png",
        "image_ref": "image_info"
      }
    },
    {
      "name": "id",
      "type": "Numeric",
      "isFeature": false,
      "elementType": {
        "typeName": "int64",
        "isNullable": false
      }
    })";

constexpr std::string_view kLabelColumn = R"(,
    {
      "name": "category",
      "type": "String",
      "isFeature": false,
      "elementType": {
        "typeName": "str",
        "isNullable": false
      },
      "properties": {
        "annotation_type": "COCO_classification",
        "categories": [)";

constexpr std::string_view kLabelColumnEnd = R"(
        ]
      }
    })";

}  // namespace

std::string meta_text() {
  return "type: ImageDirectory\nextension: {}\nimage_list: images.lst\nsamples: _samples.json\n"
         "schema: _schema.json\n";
}

std::string schema_text(const std::vector<std::string>& classes) {
  std::string text(kImageAndIdColumns);
  if (!classes.empty()) {
    text += kLabelColumn;
    for (std::size_t id = 0; id < classes.size(); ++id) {
      text += id == 0 ? "\n" : ",\n";
      text += "          {\n            \"id\": " + std::to_string(id) +
              ",\n            \"name\": " + quote_json(classes[id]) + "\n          }";
    }
    text += kLabelColumnEnd;
  }
  return text + "\n  ]\n}";
}

std::string list_line(const ImageItem& item, std::string_view file_name, const std::string* label) {
  std::string line = R"({"image_info": {"file_name": )" + quote_json(file_name);
  if (item.size) {
    line += ", \"width\": " + std::to_string(item.size->width) +
            ", \"height\": " + std::to_string(item.size->height);
  }
  line += "}";
  if (label != nullptr) line += ", \"category\": " + quote_json(*label);
  return line + ", \"id\": " + std::to_string(item.id) + "}\n";
}

std::string samples_text(const ImageSet& set) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kNumSamples, set.items.size()); ++i) {
    const ImageItem& item = set.items[i];
    std::string bytes;
    try {
      read_first_bytes(set, i, kMaxSampleBytes + 1, bytes);
    } catch (const std::exception&) {
      continue;  // samples are a preview; the loader reports bad images
    }
    if (bytes.size() > kMaxSampleBytes) continue;
    text += text.empty() ? "\n" : ",\n";
    text +=
        "  {\n    \"image\": \"" + base64(bytes) + "\",\n    \"id\": " + std::to_string(item.id);
    if (item.label >= 0) text += ",\n    \"category\": " + quote_json(set.classes[item.label]);
    text += "\n  }";
  }
  return text.empty() ? "[]" : "[" + text + "\n]";
}

}  // namespace kiln
