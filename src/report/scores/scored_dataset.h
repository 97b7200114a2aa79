// Writes answers as the designer's Score Image Model does: as a DataFrameDirectory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/output_folder.h"
#include "modules/parquet/module.h"
#include "report/scores/score_formats.h"

namespace kiln {

// Columns: category (the true label, if there are any), id, Scored Probabilities_LABEL for each
// class as float64, and Scored Labels. Evaluate Model and pandas can read it. The folder is
// unchanged until commit(). One thread. Throws Error kFailedToWriteOutputs if the folder cannot be
// written or is a directory of another type.
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
