// Parquet files, through a module that is opened when one is wanted: few runs need it, and Arrow is
// 50 MB.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parquet/module.h"
#include "report/scores/score_formats.h"

namespace kiln {

// Throws Error (kUserError) where libkiln_parquet.so, which lies beside the program, cannot be
// opened.
std::unique_ptr<ParquetFile> create_parquet(
    const std::vector<ParquetColumn>& columns,
    const std::vector<std::pair<std::string, std::string>>& metadata, ParquetSink sink);

// A column of text or float64 for each of score_columns(); null where a row has no value. Names and
// paths that are not UTF-8 are escaped.
std::unique_ptr<ScoreEncoder> make_parquet_encoder(ScoreColumns columns);

}  // namespace kiln
