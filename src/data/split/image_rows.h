// Untrusted CSV files with a value for images of a dataset, which are named by their path in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/dataset/dataset.h"

namespace kiln {

struct ImageRow {
  int line = 0;
  std::string value;                  // from the requested column
  std::vector<std::uint32_t> images;  // in the set, usually one; empty: there is no such path
  std::string path;
};

// Parses a CSV file with the columns `path` and `column` in any order; other columns are ignored.
// All faults are added to `problems` at once, as Error kUserError: not a CSV file, a column missing
// or repeated, rows of different lengths, a path with two values. Paths that are not in the set are
// left to the caller. `name` is the file as the user gave it: "--labels 'x.csv'".
std::vector<ImageRow> parse_image_rows(std::string_view text, const std::string& name,
                                       const std::string& column, const Dataset& set,
                                       Problems& problems);

// Adds a fault to `problems` for rows without images whose paths are not in `known` (sorted)
// either.
void refuse_unknown_paths(const std::vector<ImageRow>& rows, const std::string& name,
                          const Dataset& set, const std::vector<std::string>& known,
                          Problems& problems);

// Reads the file, of at most 1 GiB. Throws Error kUserError.
std::string read_image_rows(const std::string& path, const std::string& name);

}  // namespace kiln
