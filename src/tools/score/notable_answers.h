// Selects the answers worth a look: the least confident ones, and the most confident mistakes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/scores/score_formats.h"

namespace kiln {

struct NotableAnswer {
  std::size_t image = 0;  // its index over all scored images
  std::string path;
  RankedClass best;
};

// Holds at most 100 answers, however many it sees.
class NotableAnswers {
 public:
  // `unsure_alone`: only guesses (Score::is_unsure) count as unsure. Otherwise any answer may.
  explicit NotableAnswers(bool unsure_alone) : unsure_alone_(unsure_alone) {}

  // Call it in the order of the images. Ignores bad images.
  void see(std::size_t image, const Score& score, bool is_wrong);

  // The 24 least confident answers (76 guesses with `unsure_alone`), least confident first; then
  // those of the 24 most confident mistakes that are not among them, most confident first. On ties,
  // the first image.
  std::vector<NotableAnswer> all() const;

 private:
  const bool unsure_alone_;
  std::vector<NotableAnswer> doubtful_, wrong_;  // in the order of all()
};

}  // namespace kiln
