// The answers of a model as rows of a table, and the formats of files that hold them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kiln {

struct RankedClass {
  int id = 0;
  float confidence = 0;  // the softmax's
};

// One image's answer. A bad image has none: neither classes nor probabilities.
struct Score {
  std::string path;                  // as the data names it
  std::string true_label;            // empty: none
  std::vector<RankedClass> best;     // the most probable first
  std::vector<float> probabilities;  // by class id, where all are wanted
  bool is_unsure = false;            // best[0] is a guess, no answer
  std::string fault;                 // why the image is bad, or what of it is damaged; else empty
};

// What every row of a file holds.
struct ScoreColumns {
  std::vector<std::string> labels;  // of the model, by class id
  int top_k = 1;                    // at most the number of classes
  bool all_classes = false;
  bool true_labels = false;
  bool guesses = false;  // of images that are too unsure for an answer
};

struct ScoreColumn {
  std::string name;
  bool is_number = false;  // else text
};

// path, label, confidence; guess where some may be unsure; true_label where there are true labels;
// label_2, confidence_2 and so on up to top_k; probability_LABEL of each class, where all are
// wanted; fault.
std::vector<ScoreColumn> score_columns(const ScoreColumns& columns);

// std::monostate: the row has no value there.
using ScoreCell = std::variant<std::monostate, std::string, float>;

// In the order of score_columns().
std::vector<ScoreCell> cells_of(const ScoreColumns& columns, const Score& score);

// A line of a CSV file with its end, as RFC 4180 has it; numbers in the shortest text that reads as
// the same float.
std::string csv_line(const std::vector<ScoreCell>& cells);

// Rows -> the bytes of a file, one after the other, so that it need not be in memory.
class ScoreEncoder {
 public:
  virtual ~ScoreEncoder() = default;
  virtual std::string begin() { return {}; }
  virtual std::string row(const Score& score) = 0;
  virtual std::string end() { return {}; }
};

struct ScoreFormat {
  std::string_view extension;  // with its dot; empty: lines for people
  bool is_lines;               // each row stands by itself, so a part of a file can be gone on from
  std::unique_ptr<ScoreEncoder> (*encoder)(ScoreColumns columns);
};

// By a file's extension, in any case. nullptr: unknown.
const ScoreFormat* find_score_format(std::string_view extension);
// ".csv, .jsonl or .parquet".
std::string score_extensions();

}  // namespace kiln
