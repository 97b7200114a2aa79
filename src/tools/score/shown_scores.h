// The page of `kiln score --page`: some answers of each class with their pictures, and how many
// there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/transform/image_pipeline.h"
#include "report/page/page.h"
#include "report/scores/score_formats.h"

namespace kiln {

// Keeps at most 200 pictures, however many images it sees. One thread.
class ShownScores {
 public:
  // `page`: without what is seen here.
  explicit ShownScores(AnswersPage page);

  // Image `i` of `set`, which the model sees through `pixels`. Ignores bad images.
  void add(const Dataset& set, std::uint32_t i, const TransformSpec& pixels, const Score& score);

  void write(long long num_bad, const std::string& path);

 private:
  AnswersPage page_;
  std::vector<std::size_t> num_shown_;  // of each class, and last, of those that are unsure
};

}  // namespace kiln
