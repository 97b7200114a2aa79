// A model's answers as rows of a table, and the file formats for them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "modules/parquet/module.h"

namespace kiln {

struct RankedClass {
  int id = 0;
  float confidence = 0;  // softmax probability
};

// The answer for one image. A bad image has none: no classes and no probabilities.
struct Score {
  std::string path;                  // as named in the dataset
  std::string true_label;            // empty: none
  std::vector<RankedClass> best;     // most probable first
  std::vector<float> probabilities;  // by class id, if all are requested
  bool is_unsure = false;            // best[0] is only a guess, not an answer
  std::string fault;                 // why the image is bad, or what is damaged; empty: neither
};

// What each row of a file contains.
struct ScoreColumns {
  std::vector<std::string> labels;  // of the model, by class id
  int top_k = 1;                    // at most the number of classes
  bool all_classes = false;
  bool true_labels = false;
  bool guesses = false;  // for images without a confident answer
};

struct ScoreColumn {
  std::string name;
  bool is_number = false;  // else text
};

// path, label, confidence; guess, if `guesses`; true_label, if `true_labels`; label_2, confidence_2
// and so on up to top_k; probability_LABEL for each class, if `all_classes`; fault.
std::vector<ScoreColumn> score_columns(const ScoreColumns& columns);

// std::monostate: no value.
using ScoreCell = std::variant<std::monostate, std::string, float>;

// In the order of score_columns().
std::vector<ScoreCell> cells_of(const ScoreColumns& columns, const Score& score);

// A CSV line with its line end, as in RFC 4180. Numbers are written in the shortest form that
// parses to the same float.
std::string csv_line(const std::vector<ScoreCell>& cells);

// Encodes a file row by row, so that it need not be in memory.
class ScoreEncoder {
 public:
  virtual ~ScoreEncoder() = default;
  virtual std::string begin() { return {}; }
  virtual std::string row(const Score& score) = 0;
  virtual std::string end() { return {}; }
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

// Parquet files, written by a module that is loaded only when needed: few runs use it, and Arrow is
// 50 MB.
//
// Throws Error kUserError if libkiln_parquet.so, which is installed next to the program, cannot be
// opened.
std::unique_ptr<ParquetFile> create_parquet(
    const std::vector<ParquetColumn>& columns,
    const std::vector<std::pair<std::string, std::string>>& metadata, ParquetSink sink);

// Writes one text or float64 column for each of score_columns(), with null where a row has no
// value. Escapes names and paths that are not valid UTF-8.
std::unique_ptr<ScoreEncoder> make_parquet_encoder(ScoreColumns columns);

}  // namespace kiln
