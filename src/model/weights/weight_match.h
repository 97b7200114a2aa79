// Matches the rows of a source's last layer to classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

// For each class of the data, the row of the source's last layer to load, or kFreshRow for none.
inline constexpr std::int64_t kFreshRow = -1;
struct ClassRows {
  std::vector<std::int64_t> rows;
  std::string text;  // a clause for the log

  bool any() const;
};

// `source_classes`: the class of each row of the source's last layer, or empty if unknown. If
// unknown, the layer is loaded unchanged if it has as many rows as there are classes. `num_rows`:
// of the source's last layer.
ClassRows match_classes(const std::vector<std::string>& classes,
                        const std::vector<std::string>& source_classes, std::int64_t num_rows);

}  // namespace kiln
