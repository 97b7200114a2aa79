#include "report/scores/score_formats.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/names.h"
#include "base/text.h"
#include "base/url.h"
#include "data/dataset/listing.h"
#include "modules/arrow/module.h"

namespace kiln {
namespace {

constexpr const char* kUnlike = "unlike the training images";

// The labels, those of the same name with the number of the class.
std::vector<std::string> distinct_names(std::vector<std::string> labels) {
  std::unordered_map<std::string, int> counts;
  for (const std::string& label : labels) ++counts[label];
  for (std::size_t id = 0; id < labels.size(); ++id)
    if (counts[labels[id]] > 1) labels[id] += " (" + std::to_string(id) + ")";
  return labels;
}

// Texts, and numbers that only Parquet has as such.
std::vector<ParquetColumn> score_columns(const ScoreColumns& columns) {
  constexpr ParquetType kText = ParquetType::kText, kNumber = ParquetType::kNumber;
  std::vector<ParquetColumn> all = {{"path", kText}, {"label", kText}, {"confidence", kNumber}};
  if (columns.guesses) all.push_back({"guess", kText});
  if (columns.true_labels) all.push_back({"true_label", kText});
  for (int place = 2; place <= columns.top_k; ++place) {
    all.push_back({"label_" + std::to_string(place), kText});
    all.push_back({"confidence_" + std::to_string(place), kNumber});
  }
  if (columns.all_classes)
    for (const std::string& name : distinct_names(columns.labels))
      all.push_back({"probability_" + name, kNumber});
  all.push_back({"fault", kText});
  for (int place = 1; place <= columns.neighbors; ++place)
    all.push_back({"neighbor_" + std::to_string(place), kText});
  if (columns.alike) all.push_back({"alike", kNumber});
  return all;
}

// In the order of score_columns().
std::vector<ScoreCell> cells_of(const ScoreColumns& columns, const Score& score) {
  std::vector<ScoreCell> cells;
  const auto add_text = [&](const std::string& text) {
    cells.emplace_back();
    if (!text.empty()) cells.back() = text;
  };
  const auto add_class = [&](std::size_t place) {
    cells.resize(cells.size() + 2);
    if (place >= score.best.size()) return;
    cells[cells.size() - 2] =
        place == 0 ? label_text(columns.labels, score) : columns.labels[score.best[place].id];
    cells.back() = score.best[place].confidence;
  };
  add_text(score.path);
  add_class(0);
  if (columns.guesses) {
    ScoreCell& guess = cells.emplace_back();
    if (score.is_unsure) std::swap(guess, cells[1]);
  }
  if (columns.true_labels) add_text(score.true_label);
  for (int place = 1; place < columns.top_k; ++place) add_class(static_cast<std::size_t>(place));
  for (std::size_t id = 0; columns.all_classes && id < columns.labels.size(); ++id) {
    cells.emplace_back();
    if (!score.probabilities.empty()) cells.back() = score.probabilities[id];
  }
  add_text(score.is_unlike && score.fault.empty() ? kUnlike : score.fault);
  for (std::size_t i = 0; i < static_cast<std::size_t>(columns.neighbors); ++i)
    add_text(i < score.neighbors.size() ? score.neighbors[i] : "");
  if (columns.alike) cells.emplace_back(score.alike ? ScoreCell(*score.alike) : ScoreCell());
  return cells;
}

class Csv : public ScoreEncoder {
 public:
  using ScoreEncoder::ScoreEncoder;

  std::string begin() override {
    std::vector<ScoreCell> names;
    for (ParquetColumn& column : score_columns(columns_))
      names.emplace_back(std::move(column.name));
    return csv_line(names);
  }

  std::string row(const Score& score) override { return csv_line(cells_of(columns_, score)); }
};

// One JSON object per line, with all columns; null for a value that the row does not have.
class JsonLines : public ScoreEncoder {
 public:
  explicit JsonLines(ScoreColumns columns) : ScoreEncoder(std::move(columns)) {
    for (const ParquetColumn& column : score_columns(columns_))
      keys_.push_back(quoted(column.name));
  }

  std::string row(const Score& score) override {
    std::string line;
    const std::vector<ScoreCell> cells = cells_of(columns_, score);
    for (std::size_t i = 0; i < cells.size(); ++i)
      line += (i == 0 ? "{" : ", ") + keys_[i] + ": " + value_text(cells[i]);
    return line + "}\n";
  }

 private:
  // File names may contain any bytes, but JSON must be UTF-8.
  static std::string quoted(const std::string& text) { return quote_json(as_utf8(text)); }

  static std::string value_text(const ScoreCell& cell) {
    if (const auto* text = std::get_if<std::string>(&cell)) return quoted(*text);
    if (const auto* number = std::get_if<float>(&cell)) return shortest_text(*number);
    return "null";
  }

  std::vector<std::string> keys_;
};

// For people: "photo.jpg: cat 97.1 %, dog 2.1 %"; of several labels an image, those of the answer
// first: "photo.jpg: cat;dog: cat 97.1 %, dog 80.1 %, fish 2.1 %".
class ReadableLines : public ScoreEncoder {
 public:
  using ScoreEncoder::ScoreEncoder;

  std::string row(const Score& score) override {
    std::string line = score.path + ": " + (score.is_unsure ? columns_.unsure_text : "");
    if (score.labels && !score.is_unsure) line += label_text(columns_.labels, score) + ": ";
    for (std::size_t i = 0; i < score.best.size(); ++i)
      line += (i == 0 ? "" : ", ") + columns_.labels[score.best[i].id] +
              formatted(" %.1f %%", 100 * static_cast<double>(score.best[i].confidence));
    if (score.best.empty()) line += "cannot be classified: " + score.fault;
    if (!score.best.empty() && !score.fault.empty()) line += " (damaged: " + score.fault + ")";
    if (score.is_unlike) line += std::string(" (") + kUnlike + ")";
    if (!score.true_label.empty()) line += " (true label: " + score.true_label + ")";
    if (!score.neighbors.empty()) line += " (near: " + joined(score.neighbors, ", ") + ")";
    return for_people(line) + "\n";
  }
};

// Writes one text or float64 column for each of score_columns(), with null where a row has no
// value. Escapes names and paths that are not valid UTF-8.
class ParquetEncoder : public ScoreEncoder {
 public:
  explicit ParquetEncoder(ScoreColumns columns) : ScoreEncoder(std::move(columns)) {
    std::vector<ParquetColumn> of_file = score_columns(columns_);
    for (ParquetColumn& column : of_file) column.name = as_utf8(column.name);
    file_ = create_parquet(of_file, {}, [this](std::string_view bytes) { bytes_ += bytes; });
  }

  std::string begin() override { return taken(); }

  std::string row(const Score& score) override {
    file_->add(parquet_values(cells_of(columns_, score)));
    return taken();
  }

  std::string end() override {
    file_->close();
    return taken();
  }

 private:
  std::string taken() { return std::exchange(bytes_, {}); }

  std::string bytes_;  // encoded, but not returned yet
  std::unique_ptr<ParquetFile> file_;
};

template <typename Encoder>
std::unique_ptr<ScoreEncoder> make(ScoreColumns columns) {
  return std::make_unique<Encoder>(std::move(columns));
}

constexpr std::array<ScoreFormat, 4> kFormats{{{"", true, make<ReadableLines>},
                                               {".csv", true, make<Csv>},
                                               {".jsonl", true, make<JsonLines>},
                                               {".parquet", false, make<ParquetEncoder>}}};

}  // namespace

std::string label_text(const std::vector<std::string>& labels, const Score& score) {
  if (!score.labels) return labels[static_cast<std::size_t>(score.best[0].id)];
  std::vector<std::string> names;
  for (const int id : *score.labels) names.push_back(labels[static_cast<std::size_t>(id)]);
  std::ranges::sort(names);
  return joined(names, std::string(1, kLabelSeparator));
}

std::unique_ptr<ParquetFile> create_parquet(
    const std::vector<ParquetColumn>& columns,
    const std::vector<std::pair<std::string, std::string>>& metadata, ParquetSink sink) {
  return arrow_module(
             "Parquet files need pip's extra kiln-trainer[parquet], or Kiln installed again. Or "
             "use an output that ends in .csv or .jsonl.")
      .create(columns, metadata, std::move(sink));
}

std::vector<ParquetValue> parquet_values(const std::vector<ScoreCell>& cells) {
  std::vector<ParquetValue> values;
  for (const ScoreCell& cell : cells) {
    ParquetValue& value = values.emplace_back();
    if (const auto* text = std::get_if<std::string>(&cell)) value = as_utf8(*text);
    if (const auto* number = std::get_if<float>(&cell)) value = static_cast<double>(*number);
  }
  return values;
}

std::string csv_line(const std::vector<ScoreCell>& cells) {
  std::string line;
  for (const ScoreCell& cell : cells) {
    if (const auto* text = std::get_if<std::string>(&cell)) line += csv_field(*text);
    if (const auto* number = std::get_if<float>(&cell)) line += shortest_text(*number);
    line += ',';
  }
  line.back() = '\r';
  return line + '\n';
}

const ScoreFormat* find_score_format(std::string_view extension) {
  const auto* const found =
      std::ranges::find(kFormats, in_small_letters(extension), &ScoreFormat::extension);
  return found == kFormats.end() ? nullptr : found;
}

std::string score_extensions() {
  std::vector<std::string> names;
  for (const ScoreFormat& format : kFormats)
    if (!format.extension.empty()) names.emplace_back(format.extension);
  return join_choices(names);
}

namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kSamples = 3, kShownRows = 100, kMaxMeta = 1 << 16;
constexpr const char *kTrueLabels = "category", *kAnswers = "Scored Labels";
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
  for (const std::string& name : distinct_names(labels))
    columns.push_back({"Scored Probabilities_" + as_utf8(name), ParquetType::kNumber});
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
  OrderedJson json = {{"index_columns", OrderedJson::array()},
                      {"column_indexes", OrderedJson::array()}};
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

OrderedJson json_of(const ParquetValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return nullptr;
}

OrderedJson table_json(OrderedJson records, OrderedJson features, std::int64_t num_rows) {
  const std::size_t num_columns = features.size();
  return {{"records", std::move(records)},
          {"features", std::move(features)},
          {"numberOfRows", num_rows},
          {"numberOfColumns", num_columns},
          {"name", nullptr}};
}

OrderedJson feature_json(const std::string& name, std::size_t index, const char* element,
                         const std::string& type) {
  return {{"name", name}, {"index", index}, {"elementType", element}, {"featureType", type}};
}

// Creates and locks the folder. Throws Error if it is a directory of another type.
OutputFolder take(const fs::path& path) {
  OutputFolder folder(path);
  const fs::path meta = path / "_meta.yaml";
  if (is_there(meta) &&
      first_bytes(meta, kMaxMeta).find("type: DataFrameDirectory") == std::string::npos)
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "--scored-dataset " + quoted_path(path) +
                    " is a directory of another type. Choose a new folder.");
  rehearse_write(path / "probe");
  std::error_code failure;
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
  row.emplace_back(as_utf8(labels_[score.best.front().id]));
  table_->add(row);
  ++num_rows_;
  if (first_rows_.size() < kShownRows) first_rows_.push_back(std::move(row));
}

std::string ScoredDataset::schema() const {
  OrderedJson attributes = OrderedJson::array(), scores = OrderedJson::object();
  for (const ParquetColumn& column : columns_) {
    const TypeNames names = names_of(column.type);
    attributes.push_back({{"name", column.name},
                          {"type", names.kind},
                          {"isFeature", column.name == "id"},
                          {"elementType", {{"typeName", names.element}, {"isNullable", false}}}});
    if (column.type == ParquetType::kNumber) scores[column.name] = column.name;
  }
  scores["Multi Class Assigned Labels"] = kAnswers;
  OrderedJson labels = OrderedJson::object();
  if (columns_.front().name == kTrueLabels) labels["True Labels"] = kTrueLabels;
  return OrderedJson{{"columnAttributes", std::move(attributes)},
                     {"featureChannels", OrderedJson::array()},
                     {"labelColumns", std::move(labels)},
                     {"scoreColumns", std::move(scores)}}
      .dump(2);
}

// What the designer shows of the data: the first rows. As in the original component's output, all
// statistics are empty.
std::string ScoredDataset::visualization() const {
  OrderedJson rows = OrderedJson::array(), features = OrderedJson::array();
  for (const std::vector<ParquetValue>& row : first_rows_) {
    OrderedJson cells = OrderedJson::array();
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
  OrderedJson of_statistics = OrderedJson::array(), of_layout = OrderedJson::array();
  for (const char* name :
       {"Mean", "Median", "Min", "Max", "Standard Deviation", "Unique Values", "Missing Values"})
    of_statistics.push_back(feature_json(name, of_statistics.size(), "float64", "Numeric Feature"));
  for (const char* name : {"Histogram", "Boxplot"})
    of_layout.push_back(feature_json(name, of_layout.size(), "object", "Object Feature"));
  const auto num_rows = std::ssize(columns_);
  const auto records_of = [&](const OrderedJson& value, std::size_t length) {
    return OrderedJson(columns_.size(), OrderedJson(length, value));
  };
  return OrderedJson{
      {"visualizationType", "default"},
      {"data", table_json(std::move(rows), std::move(features), num_rows_)},
      {"statistics",
       table_json(records_of({{"isNan", true}}, of_statistics.size()), of_statistics, num_rows)},
      {"layout", table_json(records_of(nullptr, of_layout.size()), of_layout, num_rows)}}
      .dump();
}

void ScoredDataset::commit() {
  table_->close();
  OrderedJson samples = OrderedJson::array();
  for (std::size_t i = 0; i < std::min(kSamples, first_rows_.size()); ++i) {
    OrderedJson sample = OrderedJson::object();
    for (std::size_t column = 0; column < columns_.size(); ++column)
      sample[columns_[column].name] = json_of(first_rows_[i][column]);
    samples.push_back(std::move(sample));
  }
  const fs::path& folder = folder_.path();
  std::vector<DurableFile> files;
  files.push_back(std::move(data_));
  files.push_back(complete_file(folder / "_samples.json", samples.dump(2)));
  files.push_back(complete_file(folder / "_data.visualization", visualization()));
  files.push_back(complete_file(folder / "schema/_schema.json", schema()));
  files.push_back(complete_file(folder / "_meta.yaml", kMeta));
  folder_.replace(std::move(files), {});
}

}  // namespace kiln
