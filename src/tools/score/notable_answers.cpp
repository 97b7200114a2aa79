#include "tools/score/notable_answers.h"

#include <algorithm>

namespace kiln {
namespace {

constexpr std::size_t kMostDoubtful = 24, kMaxGuesses = 76, kMostWrong = 24;

// Inserts an answer in the order of `comes_before`, and keeps the first `most`. Of equal answers
// the one inserted earlier comes first.
template <typename Order>
void insert(std::vector<NotableAnswer>& answers, std::size_t most, const Order& comes_before,
            std::size_t image, const Score& score) {
  const NotableAnswer answer{image, score.path, score.best.front()};
  answers.insert(std::upper_bound(answers.begin(), answers.end(), answer, comes_before), answer);
  if (answers.size() > most) answers.pop_back();
}

}  // namespace

void NotableAnswers::see(std::size_t image, const Score& score, bool is_wrong) {
  if (score.best.empty()) return;
  if (score.is_unsure || !unsure_alone_)
    insert(
        doubtful_, unsure_alone_ ? kMaxGuesses : kMostDoubtful,
        [](const NotableAnswer& a, const NotableAnswer& b) {
          return a.best.confidence < b.best.confidence;
        },
        image, score);
  if (is_wrong)
    insert(
        wrong_, kMostWrong,
        [](const NotableAnswer& a, const NotableAnswer& b) {
          return a.best.confidence > b.best.confidence;
        },
        image, score);
}

std::vector<NotableAnswer> NotableAnswers::all() const {
  std::vector<NotableAnswer> answers = doubtful_;
  for (const NotableAnswer& answer : wrong_) {
    const auto is_same = [&](const NotableAnswer& one) { return one.image == answer.image; };
    if (std::none_of(doubtful_.begin(), doubtful_.end(), is_same)) answers.push_back(answer);
  }
  return answers;
}

}  // namespace kiln
