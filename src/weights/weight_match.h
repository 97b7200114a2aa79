// What of a source's weights fits a network: whether they are the network's at all, and which rows
// of their last layer belong to which class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/catalogue.h"
#include "weights/weight_source.h"

namespace kiln {

// Throws Error kInvalidModelDirectory unless the source's convolutions are those of `network`, all
// of them and no others; it names the network that they are nearest to.
void require_weights_of(const KnownNetwork& network, const WeightSource& source);

// For each class of the data the row of a source's last layer that is taken; kFreshRow: none.
inline constexpr std::int64_t kFreshRow = -1;
struct ClassRows {
  std::vector<std::int64_t> rows;
  std::string text;  // a clause for the log

  bool any() const;
};

// `source_classes` by row, or empty where they are not known: then a last layer of as many rows as
// there are classes is taken as it is. `num_rows` of the source's last layer.
ClassRows match_classes(const std::vector<std::string>& classes,
                        const std::vector<std::string>& source_classes, std::int64_t num_rows);

}  // namespace kiln
