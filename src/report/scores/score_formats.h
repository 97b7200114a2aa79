// A model's answers as rows of a table, and the file formats for them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/files.h"
#include "base/output_folder.h"
#include "modules/arrow/module.h"

namespace kiln {

struct RankedClass {
  int id = 0;
  float confidence = 0;  // probability
};

// The answer for one image. A bad image has none: no classes and no probabilities.
struct Score {
  std::string path;                       // as named in the dataset
  std::string true_label;                 // empty: none
  std::vector<RankedClass> best = {};     // most probable first
  std::vector<float> probabilities = {};  // by class id, if all are requested
  bool is_unsure = false;                 // best[0] is only a guess, not an answer
  // How like the training images it is: the share of held-out images that are no more so. Empty:
  // unknown to the model.
  std::optional<float> alike = {};
  bool is_unlike = false;  // too little: therefore unsure
  // The ids of the classes that it is predicted to have, if that is not always best[0].
  std::optional<std::vector<int>> labels = {};
  std::vector<std::string> neighbors = {};  // training images, nearest first
  std::string fault;  // why the image is bad, or what is damaged; empty: neither
};

// What each row of a file contains: path, label, confidence; guess, if `guesses`; true_label, if
// `true_labels`; label_2, confidence_2 and so on up to top_k; probability_LABEL for each class, if
// `all_classes`; fault; neighbor_1 and so on; alike, if `alike`.
struct ScoreColumns {
  std::vector<std::string> labels;  // of the model, by class id
  int top_k = 1;                    // at most the number of classes
  bool all_classes = false;
  bool true_labels = false;
  bool guesses = false;                  // for images without a confident answer
  bool alike = false;                    // the last column
  int neighbors = 0;                     // so many of the nearest training images
  const char* unsure_text = "unsure: ";  // before a guess, in lines for people
};

// The name of the class of an answer, or those of several, sorted and separated by kLabelSeparator.
std::string label_text(const std::vector<std::string>& labels, const Score& score);

// std::monostate: no value.
using ScoreCell = std::variant<std::monostate, std::string, float>;

// A CSV line with its line end, as in RFC 4180. Numbers are written in the shortest form that
// parses to the same float.
std::string csv_line(const std::vector<ScoreCell>& cells);

// The same as values of a Parquet file, whose texts are UTF-8.
std::vector<ParquetValue> parquet_values(const std::vector<ScoreCell>& cells);
// Throws Error kUserError where the module for Parquet is missing.
std::unique_ptr<ParquetFile> create_parquet(
    const std::vector<ParquetColumn>& columns,
    const std::vector<std::pair<std::string, std::string>>& metadata, ParquetSink sink);

// Encodes a file row by row, so that it need not be in memory.
class ScoreEncoder {
 public:
  explicit ScoreEncoder(ScoreColumns columns) : columns_(std::move(columns)) {}
  virtual ~ScoreEncoder() = default;
  virtual std::string begin() { return {}; }
  virtual std::string row(const Score& score) = 0;  // of formats that are lines, on any thread
  virtual std::string end() { return {}; }

 protected:
  const ScoreColumns columns_;
};

struct ScoreFormat {
  std::string_view extension;  // with the dot; empty: human-readable lines
  bool is_lines;               // rows are independent, so a partial file can be continued
  std::unique_ptr<ScoreEncoder> (*encoder)(ScoreColumns columns);
};

// Looks up a file extension, ignoring case; nullptr if unknown.
const ScoreFormat* find_score_format(std::string_view extension);
// ".csv, .jsonl or .parquet".
std::string score_extensions();

// Writes answers as the designer's Score Image Model does, as a DataFrameDirectory with the columns
// category (the true label, if there are any), id, Scored Probabilities_LABEL for each class as
// float64, and Scored Labels. Evaluate Model and pandas can read it. The folder is unchanged until
// commit(). One thread. Throws Error kFailedToWriteOutputs if the folder cannot be written or is a
// directory of another type.
class ScoredDataset {
 public:
  // `labels`: by class id.
  ScoredDataset(const std::filesystem::path& folder, std::vector<std::string> labels,
                bool true_labels);
  ScoredDataset(const ScoredDataset&) = delete;
  ScoredDataset& operator=(const ScoredDataset&) = delete;

  // Adds an image that has an answer. `id`: its id in the dataset. `probabilities`: the softmax, by
  // class id.
  void add(const Score& score, std::int64_t id, const std::vector<float>& probabilities);
  void commit();

 private:
  std::string schema() const;
  std::string visualization() const;

  const std::vector<std::string> labels_;
  const std::vector<ParquetColumn> columns_;
  OutputFolder folder_;
  DurableFile data_;
  std::unique_ptr<ParquetFile> table_;  // writes to data_
  std::vector<std::vector<ParquetValue>> first_rows_;
  std::int64_t num_rows_ = 0;
};

}  // namespace kiln
