// Which of many answers are worth a look: the least sure ones, and the most confident mistakes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/scores/score_formats.h"

namespace kiln {

struct NotableAnswer {
  std::size_t image = 0;  // its running number
  std::string path;
  RankedClass best;
};

// Holds at most 100 of them, however many it sees.
class NotableAnswers {
 public:
  // `unsure_alone`: what counts as not sure is a guess (Score::is_unsure), and nothing else is.
  explicit NotableAnswers(bool unsure_alone) : unsure_alone_(unsure_alone) {}

  // In the order of the images. A bad image is no answer.
  void see(std::size_t image, const Score& score, bool is_wrong);

  // The least sure first, 24 of them, or 76 guesses; then those of the 24 most confident mistakes
  // that are not among them, the most confident first. Of equals the first image.
  std::vector<NotableAnswer> all() const;

 private:
  const bool unsure_alone_;
  std::vector<NotableAnswer> doubtful_, wrong_;  // in that order
};

}  // namespace kiln
