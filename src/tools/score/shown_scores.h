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
  explicit ShownScores(const std::vector<std::string>& classes);

  // Image `i` of `set`, which the model sees through `pixels`. Ignores bad images.
  void add(const Dataset& set, std::uint32_t i, const TransformSpec& pixels, const Score& score);

  // `page`: complete but for what was seen here, and where it goes.
  void write(AnswersPage page, const std::string& path);

 private:
  std::vector<long long> counts_;       // answers of each class
  std::vector<std::size_t> num_shown_;  // of each class, and last, of those that are unsure
  long long num_images_ = 0;
  const std::vector<std::string> classes_;
  std::vector<AnswerOnPage> images_;
};

}  // namespace kiln
