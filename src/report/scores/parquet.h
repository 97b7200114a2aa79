// Parquet files, written by a module that is loaded only when needed: few runs use it, and Arrow is
// 50 MB.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "modules/parquet/module.h"
#include "report/scores/score_formats.h"

namespace kiln {

// Throws Error kUserError if libkiln_parquet.so, which is installed next to the program, cannot be
// opened.
std::unique_ptr<ParquetFile> create_parquet(
    const std::vector<ParquetColumn>& columns,
    const std::vector<std::pair<std::string, std::string>>& metadata, ParquetSink sink);

// Writes one text or float64 column for each of score_columns(), with null where a row has no
// value. Escapes names and paths that are not valid UTF-8.
std::unique_ptr<ScoreEncoder> make_parquet_encoder(ScoreColumns columns);

}  // namespace kiln
