// CSV files that say something of the images of a dataset, named by their paths in it. Untrusted.
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
  std::string value;                  // of the column that was asked for
  std::vector<std::uint32_t> images;  // of the set, mostly one; empty: there is no such path
  std::string path;
};

// A CSV file with the columns `path` and `column` in any order; others are for people. What is
// wrong with it is added to `problems`, all at once, as Error kUserError: not a CSV file, a column
// that is missing or there twice, rows of other lengths, a path with two values. Paths that are
// not in the set are the caller's. `name` is the file as the user gave it: "--labels 'x.csv'".
std::vector<ImageRow> parse_image_rows(std::string_view text, const std::string& name,
                                       const std::string& column, const Dataset& set,
                                       Problems& problems);

// Adds the fault of rows without images, which are not in `known` either (sorted).
void refuse_unknown_paths(const std::vector<ImageRow>& rows, const std::string& name,
                          const Dataset& set, const std::vector<std::string>& known,
                          Problems& problems);

// The file's contents, of at most 1 GiB. Throws Error kUserError.
std::string read_image_rows(const std::string& path, const std::string& name);

}  // namespace kiln
