// The features of images as a file, a row for each image, in their order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/files.h"
#include "modules/arrow/module.h"

namespace kiln {

// .parquet and .csv: the path, then feature_0 and so on, empty for a bad image. .npy (NumPy's
// format 1.0): float32 [images, features], NaN for a bad image, and the paths in NAME.names.csv.
// One thread. The file appears with commit().
class FeatureTable {
 public:
  // Throws Error kParameterParsing for another extension, kFailedToWriteOutputs.
  explicit FeatureTable(const std::filesystem::path& path);

  // Before the first row.
  void begin(std::int64_t num_images, std::int64_t num_features);
  // `features`: empty for a bad image.
  void add(const std::string& name, std::span<const float> features);
  void commit();

 private:
  const std::string extension_;
  DurableFile file_;
  std::optional<DurableFile> names_;      // of .npy
  std::unique_ptr<ParquetFile> parquet_;  // of .parquet
  std::size_t num_features_ = 0;
};

}  // namespace kiln
