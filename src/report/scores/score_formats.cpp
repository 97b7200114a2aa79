#include "report/scores/score_formats.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/unicode_form.h"

namespace kiln {
namespace {

// The shortest text that parses to the same float.
std::string number_text(float value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

class Csv : public ScoreEncoder {
 public:
  explicit Csv(ScoreColumns columns) : columns_(std::move(columns)) {}

  std::string begin() override {
    std::vector<ScoreCell> names;
    for (ScoreColumn& column : score_columns(columns_)) names.emplace_back(std::move(column.name));
    return csv_line(names);
  }

  std::string row(const Score& score) override { return csv_line(cells_of(columns_, score)); }

 private:
  ScoreColumns columns_;
};

// One JSON object per line, with all columns; null for a value that the row does not have.
class JsonLines : public ScoreEncoder {
 public:
  explicit JsonLines(ScoreColumns columns) : columns_(std::move(columns)) {
    for (const ScoreColumn& column : score_columns(columns_)) keys_.push_back(quoted(column.name));
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
    if (const auto* number = std::get_if<float>(&cell)) return number_text(*number);
    return "null";
  }

  ScoreColumns columns_;
  std::vector<std::string> keys_;
};

// For people: "photo.jpg: cat 97.1 %, dog 2.1 %".
class ReadableLines : public ScoreEncoder {
 public:
  explicit ReadableLines(ScoreColumns columns) : columns_(std::move(columns)) {}

  std::string row(const Score& score) override {
    std::string line = score.path + (score.is_unsure ? ": unsure: " : ": ");
    for (std::size_t i = 0; i < score.best.size(); ++i)
      line += (i == 0 ? "" : ", ") + columns_.labels[static_cast<std::size_t>(score.best[i].id)] +
              formatted(" %.1f %%", 100 * static_cast<double>(score.best[i].confidence));
    if (score.best.empty()) line += "cannot be classified: " + score.fault;
    if (!score.best.empty() && !score.fault.empty()) line += " (damaged: " + score.fault + ")";
    if (!score.true_label.empty()) line += " (true label: " + score.true_label + ")";
    return printable(line) + "\n";
  }

 private:
  ScoreColumns columns_;
};

template <typename Encoder>
std::unique_ptr<ScoreEncoder> make(ScoreColumns columns) {
  return std::make_unique<Encoder>(std::move(columns));
}

constexpr std::array<ScoreFormat, 4> kFormats{{{"", true, make<ReadableLines>},
                                               {".csv", true, make<Csv>},
                                               {".jsonl", true, make<JsonLines>},
                                               {".parquet", false, make_parquet_encoder}}};

}  // namespace

std::vector<ScoreCell> cells_of(const ScoreColumns& columns, const Score& score) {
  std::vector<ScoreCell> cells;
  const auto add_text = [&](const std::string& text) {
    cells.emplace_back();
    if (!text.empty()) cells.back() = text;
  };
  const auto add_class = [&](std::size_t place) {
    cells.resize(cells.size() + 2);
    if (place >= score.best.size()) return;
    cells[cells.size() - 2] = columns.labels[static_cast<std::size_t>(score.best[place].id)];
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
  add_text(score.fault);
  return cells;
}

std::string csv_line(const std::vector<ScoreCell>& cells) {
  std::string line;
  for (const ScoreCell& cell : cells) {
    if (const auto* text = std::get_if<std::string>(&cell)) line += csv_field(*text);
    if (const auto* number = std::get_if<float>(&cell)) line += number_text(*number);
    line += ',';
  }
  line.back() = '\r';
  return line + '\n';
}

std::vector<ScoreColumn> score_columns(const ScoreColumns& columns) {
  std::vector<ScoreColumn> all = {{"path"}, {"label"}, {"confidence", /*is_number=*/true}};
  if (columns.guesses) all.push_back({"guess"});
  if (columns.true_labels) all.push_back({"true_label"});
  for (int place = 2; place <= columns.top_k; ++place) {
    all.push_back({"label_" + std::to_string(place)});
    all.push_back({"confidence_" + std::to_string(place), /*is_number=*/true});
  }
  const std::vector<std::string>& labels = columns.labels;
  for (std::size_t id = 0; columns.all_classes && id < labels.size(); ++id) {
    const bool is_repeated = std::count(labels.begin(), labels.end(), labels[id]) > 1;
    all.push_back(
        {"probability_" + labels[id] + (is_repeated ? " (" + std::to_string(id) + ")" : ""),
         /*is_number=*/true});
  }
  all.push_back({"fault"});
  return all;
}

const ScoreFormat* find_score_format(std::string_view extension) {
  const auto is_it = [&](const ScoreFormat& format) {
    return std::equal(
        extension.begin(), extension.end(), format.extension.begin(), format.extension.end(),
        [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
  };
  const auto found = std::find_if(kFormats.begin(), kFormats.end(), is_it);
  return found == kFormats.end() ? nullptr : &*found;
}

std::string score_extensions() {
  std::vector<std::string> names;
  for (const ScoreFormat& format : kFormats)
    if (!format.extension.empty()) names.emplace_back(format.extension);
  return join_choices(names);
}

namespace {

const ParquetModule& open_module() {
  const std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libkiln_parquet.so";
  // RTLD_DEEPBIND, because LibTorch and Arrow both contain protobuf, and each must use its own
  // copy.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr)
    throw Error(ErrorCode::kUserError,
                "Parquet files cannot be written: " + std::string(::dlerror()) +
                    ". Use an output that ends in .csv or .jsonl.");
  auto* entry =
      reinterpret_cast<const ParquetModule* (*)()>(::dlsym(library, kParquetModuleSymbol));
  const ParquetModule* module = entry == nullptr ? nullptr : entry();
  if (module == nullptr || module->version != kParquetModuleVersion)
    throw Error(ErrorCode::kUserError, "Parquet files cannot be written: '" + path.string() +
                                           "' is from a different build of kiln. Reinstall both.");
  return *module;
}

class ParquetEncoder : public ScoreEncoder {
 public:
  explicit ParquetEncoder(ScoreColumns columns) : columns_(std::move(columns)) {
    std::vector<ParquetColumn> of_file;
    for (const ScoreColumn& column : score_columns(columns_))
      of_file.push_back(
          {as_utf8(column.name), column.is_number ? ParquetType::kNumber : ParquetType::kText});
    file_ = create_parquet(of_file, {}, [this](std::string_view bytes) { bytes_ += bytes; });
  }

  std::string begin() override { return taken(); }

  std::string row(const Score& score) override {
    std::vector<ParquetValue> values;
    for (const ScoreCell& cell : cells_of(columns_, score)) {
      ParquetValue& value = values.emplace_back();
      if (const auto* text = std::get_if<std::string>(&cell)) value = as_utf8(*text);
      if (const auto* number = std::get_if<float>(&cell)) value = static_cast<double>(*number);
    }
    file_->add(values);
    return taken();
  }

  std::string end() override {
    file_->close();
    return taken();
  }

 private:
  std::string taken() { return std::exchange(bytes_, {}); }

  ScoreColumns columns_;
  std::string bytes_;  // encoded, but not returned yet
  std::unique_ptr<ParquetFile> file_;
};

}  // namespace

std::unique_ptr<ParquetFile> create_parquet(
    const std::vector<ParquetColumn>& columns,
    const std::vector<std::pair<std::string, std::string>>& metadata, ParquetSink sink) {
  static const ParquetModule& module = open_module();
  return module.create(columns, metadata, std::move(sink));
}

std::unique_ptr<ScoreEncoder> make_parquet_encoder(ScoreColumns columns) {
  return std::make_unique<ParquetEncoder>(std::move(columns));
}

}  // namespace kiln
