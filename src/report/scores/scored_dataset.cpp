#include "report/scores/scored_dataset.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/unicode_form.h"
#include "report/scores/score_formats.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kSamples = 3, kShownRows = 100;
constexpr std::size_t kMaxMeta = 1 << 16;
constexpr const char* kTrueLabels = "category";
constexpr const char* kAnswers = "Scored Labels";
constexpr const char* kMeta =
    "type: DataFrameDirectory\n"
    "visualization:\n"
    "- type: Visualization\n"
    "  path: _data.visualization\n"
    "extension: {}\n"
    "format: Parquet\n"
    "data: _data.parquet\n"
    "samples: _samples.json\n"
    "schema: schema/_schema.json\n";

std::vector<ParquetColumn> columns_of(const std::vector<std::string>& labels, bool true_labels) {
  std::vector<ParquetColumn> columns;
  if (true_labels) columns.push_back({kTrueLabels, ParquetType::kText});
  columns.push_back({"id", ParquetType::kInteger});
  for (std::size_t id = 0; id < labels.size(); ++id) {
    const bool is_repeated = std::count(labels.begin(), labels.end(), labels[id]) > 1;
    columns.push_back({"Scored Probabilities_" + as_utf8(labels[id]) +
                           (is_repeated ? " (" + std::to_string(id) + ")" : ""),
                       ParquetType::kNumber});
  }
  columns.push_back({kAnswers, ParquetType::kText});
  return columns;
}

// Names for a column's type: `pandas` and `numpy` in the metadata for pandas, `element` and `kind`
// in the designer's schema.
struct TypeNames {
  const char *pandas, *numpy, *element, *kind;
};

TypeNames names_of(ParquetType type) {
  if (type == ParquetType::kText) return {"unicode", "object", "str", "String"};
  if (type == ParquetType::kInteger) return {"int64", "int64", "int64", "Numeric"};
  return {"float64", "float64", "float64", "Numeric"};
}

// The value of the Parquet metadata key "pandas", without which pandas guesses the types.
std::string pandas_metadata(const std::vector<ParquetColumn>& columns) {
  Json json = {{"index_columns", Json::array()}, {"column_indexes", Json::array()}};
  for (const ParquetColumn& column : columns) {
    const TypeNames names = names_of(column.type);
    json["columns"].push_back({{"name", column.name},
                               {"field_name", column.name},
                               {"pandas_type", names.pandas},
                               {"numpy_type", names.numpy},
                               {"metadata", nullptr}});
  }
  json["creator"] = {{"library", "kiln"}, {"version", "1"}};
  json["pandas_version"] = "1.1.5";
  return json.dump();
}

Json json_of(const ParquetValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return nullptr;
}

Json table_json(Json records, Json features, std::int64_t num_rows) {
  const std::size_t num_columns = features.size();
  return {{"records", std::move(records)},
          {"features", std::move(features)},
          {"numberOfRows", num_rows},
          {"numberOfColumns", num_columns},
          {"name", nullptr}};
}

Json feature_json(const std::string& name, std::size_t index, const char* element,
                  const std::string& type) {
  return {{"name", name}, {"index", index}, {"elementType", element}, {"featureType", type}};
}

// Returns `rows` records of `length` cells that all hold `value`.
Json same_records(std::size_t rows, const Json& value, std::size_t length) {
  return Json(rows, Json(length, value));
}

// Creates and locks the folder. Throws Error if it is a directory of another type.
OutputFolder take(const fs::path& path) {
  OutputFolder folder(path);
  std::error_code failure;
  const fs::path meta = path / "_meta.yaml";
  if (fs::exists(meta, failure) &&
      first_bytes(meta, kMaxMeta).find("type: DataFrameDirectory") == std::string::npos)
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "--scored-dataset " + quoted_path(path) +
                    " is a directory of another type. Choose a new folder.");
  fs::create_directory(path / "schema", failure);  // writing the file in it reports a failure
  return folder;
}

}  // namespace

ScoredDataset::ScoredDataset(const fs::path& folder, std::vector<std::string> labels,
                             bool true_labels)
    : labels_(std::move(labels)),
      columns_(columns_of(labels_, true_labels)),
      folder_(take(folder)),
      data_(folder / "_data.parquet"),
      table_(create_parquet(columns_, {{"pandas", pandas_metadata(columns_)}},
                            [this](std::string_view bytes) { data_.write(bytes); })) {}

void ScoredDataset::add(const Score& score, std::int64_t id,
                        const std::vector<float>& probabilities) {
  std::vector<ParquetValue> row;
  row.reserve(columns_.size());
  if (columns_.front().name == kTrueLabels) {
    row.emplace_back();
    if (!score.true_label.empty()) row.back() = as_utf8(score.true_label);
  }
  row.emplace_back(id);
  for (const float probability : probabilities) row.emplace_back(static_cast<double>(probability));
  row.emplace_back(as_utf8(labels_[static_cast<std::size_t>(score.best.front().id)]));
  table_->add(row);
  ++num_rows_;
  if (first_rows_.size() < kShownRows) first_rows_.push_back(std::move(row));
}

std::string ScoredDataset::schema() const {
  Json attributes = Json::array(), scores = Json::object();
  for (const ParquetColumn& column : columns_) {
    const TypeNames names = names_of(column.type);
    attributes.push_back({{"name", column.name},
                          {"type", names.kind},
                          {"isFeature", column.name == "id"},
                          {"elementType", {{"typeName", names.element}, {"isNullable", false}}}});
    if (column.type == ParquetType::kNumber) scores[column.name] = column.name;
  }
  scores["Multi Class Assigned Labels"] = kAnswers;
  Json labels = Json::object();
  if (columns_.front().name == kTrueLabels) labels["True Labels"] = kTrueLabels;
  return Json{{"columnAttributes", std::move(attributes)},
              {"featureChannels", Json::array()},
              {"labelColumns", std::move(labels)},
              {"scoreColumns", std::move(scores)}}
      .dump(2);
}

// What the designer shows of the data: the first rows. As in the original component's output, all
// statistics are empty.
std::string ScoredDataset::visualization() const {
  Json rows = Json::array(), features = Json::array();
  for (const std::vector<ParquetValue>& row : first_rows_) {
    Json cells = Json::array();
    for (const ParquetValue& value : row) cells.push_back(json_of(value));
    rows.push_back(std::move(cells));
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const TypeNames names = names_of(columns_[i].type);
    const char* role = columns_[i].name == kTrueLabels ? "Label"
                       : columns_[i].name == "id"      ? "Feature"
                                                       : "Score";
    features.push_back(
        feature_json(columns_[i].name, i, names.element, std::string(names.kind) + " " + role));
  }
  Json of_statistics = Json::array(), of_layout = Json::array();
  for (const char* name :
       {"Mean", "Median", "Min", "Max", "Standard Deviation", "Unique Values", "Missing Values"})
    of_statistics.push_back(feature_json(name, of_statistics.size(), "float64", "Numeric Feature"));
  for (const char* name : {"Histogram", "Boxplot"})
    of_layout.push_back(feature_json(name, of_layout.size(), "object", "Object Feature"));
  const std::size_t num_columns = columns_.size();
  const auto num_rows = static_cast<std::int64_t>(num_columns);
  return Json{
      {"visualizationType", "default"},
      {"data", table_json(std::move(rows), std::move(features), num_rows_)},
      {"statistics", table_json(same_records(num_columns, {{"isNan", true}}, of_statistics.size()),
                                of_statistics, num_rows)},
      {"layout",
       table_json(same_records(num_columns, nullptr, of_layout.size()), of_layout, num_rows)}}
      .dump();
}

void ScoredDataset::commit() {
  table_->close();
  Json samples = Json::array();
  for (std::size_t i = 0; i < std::min(kSamples, first_rows_.size()); ++i) {
    Json sample = Json::object();
    for (std::size_t column = 0; column < columns_.size(); ++column)
      sample[columns_[column].name] = json_of(first_rows_[i][column]);
    samples.push_back(std::move(sample));
  }
  const fs::path& folder = folder_.path();
  std::vector<DurableFile> files;
  files.push_back(std::move(data_));
  const auto add = [&](const char* name, const std::string& text) {
    files.emplace_back(folder / name);
    files.back().write(text);
  };
  add("_samples.json", samples.dump(2));
  add("_data.visualization", visualization());
  add("schema/_schema.json", schema());
  add("_meta.yaml", kMeta);
  folder_.replace(std::move(files), {});
}

}  // namespace kiln
