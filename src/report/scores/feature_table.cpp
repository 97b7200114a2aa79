#include "report/scores/feature_table.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/tfrecord.h"
#include "report/scores/score_formats.h"

namespace fs = std::filesystem;

namespace kiln {
namespace {

constexpr std::array<std::string_view, 3> kExtensions = {".parquet", ".csv", ".npy"};

std::string npy_header(std::int64_t num_images, std::int64_t num_features) {
  constexpr std::size_t kPreamble = 10, kAlignment = 64;
  std::string header =
      formatted("{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                static_cast<long long>(num_images), static_cast<long long>(num_features));
  const std::size_t blocks = (kPreamble + header.size()) / kAlignment + 1;
  header.resize(blocks * kAlignment - kPreamble - 1, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + little_endian(header.size(), 2) + header;
}

}  // namespace

FeatureTable::FeatureTable(const fs::path& path)
    : extension_(in_small_letters(path.extension().string())), file_(path) {
  if (std::ranges::find(kExtensions, extension_) == kExtensions.end())
    throw Error(ErrorCode::kParameterParsing, "--output-path is '" + excerpt(path.string()) +
                                                  "', but must end in .parquet, .csv or .npy.");
  if (extension_ == ".npy") names_.emplace(fs::path(path).replace_extension(".names.csv"));
}

void FeatureTable::begin(std::int64_t num_images, std::int64_t num_features) {
  num_features_ = static_cast<std::size_t>(num_features);
  if (names_) {
    names_->write(csv_line({"path"}));
    return file_.write(npy_header(num_images, num_features));
  }
  std::vector<ScoreCell> names = {"path"};
  std::vector<ParquetColumn> columns = {{"path", ParquetType::kText}};
  for (std::size_t i = 0; i < num_features_; ++i) {
    names.emplace_back("feature_" + std::to_string(i));
    columns.push_back({"feature_" + std::to_string(i), ParquetType::kNumber});
  }
  if (extension_ == ".csv") return file_.write(csv_line(names));
  parquet_ = create_parquet(columns, {}, [this](std::string_view bytes) { file_.write(bytes); });
}

void FeatureTable::add(const std::string& name, std::span<const float> features) {
  if (names_) {
    std::vector<float> values(features.begin(), features.end());
    values.resize(num_features_, std::numeric_limits<float>::quiet_NaN());
    names_->write(csv_line({name}));
    return file_.write(
        {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  std::vector<ScoreCell> cells = {name};
  cells.insert(cells.end(), features.begin(), features.end());
  cells.resize(num_features_ + 1);
  if (parquet_)
    parquet_->add(parquet_values(cells));
  else
    file_.write(csv_line(cells));
}

void FeatureTable::commit() {
  if (parquet_) parquet_->close();
  if (names_) names_->commit();
  file_.commit();
}

}  // namespace kiln
