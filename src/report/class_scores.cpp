#include "report/class_scores.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace kiln {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole)
                   : std::numeric_limits<double>::quiet_NaN();
}

std::int64_t num_errors(const ClassScore& score) {
  return score.images + score.guesses - 2 * score.hits;
}

// The classes of the matrix in their order; of too many those with most errors.
std::vector<int> shown_labels(const ConfusionMatrix& matrix, int most) {
  std::vector<ClassScore> scores = scores_by_label(matrix);
  if (matrix.num_classes > most) {
    std::stable_sort(scores.begin(), scores.end(), [](const ClassScore& a, const ClassScore& b) {
      return num_errors(a) > num_errors(b);
    });
    scores.resize(static_cast<std::size_t>(most - 1));
  }
  std::vector<int> labels;
  labels.reserve(scores.size());
  for (const ClassScore& score : scores) labels.push_back(score.label);
  std::sort(labels.begin(), labels.end());
  return labels;
}

}  // namespace

double ClassScore::recall() const {
  return share(hits, images);
}

double ClassScore::precision() const {
  return share(hits, guesses);
}

std::vector<ClassScore> scores_by_label(const ConfusionMatrix& matrix) {
  std::vector<ClassScore> scores(matrix.empty() ? 0 : static_cast<std::size_t>(matrix.num_classes));
  for (std::size_t truth = 0; truth < scores.size(); ++truth) {
    scores[truth].label = static_cast<int>(truth);
    for (std::size_t guess = 0; guess < scores.size(); ++guess) {
      const std::int64_t count = matrix.at(static_cast<int>(truth), static_cast<int>(guess));
      scores[truth].images += count;
      scores[guess].guesses += count;
      if (truth == guess) scores[truth].hits = count;
    }
  }
  return scores;
}

std::vector<ClassScore> class_scores(const ConfusionMatrix& matrix) {
  std::vector<ClassScore> scores = scores_by_label(matrix);
  std::stable_sort(scores.begin(), scores.end(), [](const ClassScore& a, const ClassScore& b) {
    if ((a.images > 0) != (b.images > 0)) return a.images > 0;
    if (a.images == 0) return false;
    if (a.recall() != b.recall()) return a.recall() < b.recall();
    return a.images > b.images;
  });
  return scores;
}

int most_often_taken_for(const ConfusionMatrix& matrix, int truth) {
  int most = -1;
  for (int guess = 0; guess < matrix.num_classes; ++guess)
    if (guess != truth && matrix.at(truth, guess) > 0 &&
        (most < 0 || matrix.at(truth, guess) > matrix.at(truth, most)))
      most = guess;
  return most;
}

std::vector<Confusion> worst_confusions(const ConfusionMatrix& matrix, std::size_t most) {
  std::vector<Confusion> pairs;
  for (int truth = 0; !matrix.empty() && truth < matrix.num_classes; ++truth)
    for (int guess = 0; guess < matrix.num_classes; ++guess)
      if (truth != guess && matrix.at(truth, guess) > 0)
        pairs.push_back({truth, guess, matrix.at(truth, guess)});
  const auto end = pairs.begin() + static_cast<std::ptrdiff_t>(std::min(most, pairs.size()));
  std::partial_sort(pairs.begin(), end, pairs.end(), [](const Confusion& a, const Confusion& b) {
    return std::tuple(-a.images, a.truth, a.guess) < std::tuple(-b.images, b.truth, b.guess);
  });
  pairs.erase(end, pairs.end());
  return pairs;
}

CondensedMatrix condensed(const ConfusionMatrix& matrix, int most) {
  CondensedMatrix small;
  small.labels = shown_labels(matrix, most);
  const auto num_shown = static_cast<int>(small.labels.size());
  small.num_others = matrix.empty() ? 0 : matrix.num_classes - num_shown;
  std::vector<int> row_of(static_cast<std::size_t>(num_shown + small.num_others), num_shown);
  for (int row = 0; row < num_shown; ++row)
    row_of[static_cast<std::size_t>(small.labels[static_cast<std::size_t>(row)])] = row;
  small.counts.num_classes = num_shown + (small.num_others > 0 ? 1 : 0);
  const auto size = static_cast<std::size_t>(small.counts.num_classes);
  small.counts.counts.assign(size * size, 0);
  for (std::size_t truth = 0; truth < row_of.size(); ++truth)
    for (std::size_t guess = 0; guess < row_of.size(); ++guess)
      small.counts.counts[static_cast<std::size_t>(row_of[truth]) * size +
                          static_cast<std::size_t>(row_of[guess])] +=
          matrix.at(static_cast<int>(truth), static_cast<int>(guess));
  return small;
}

}  // namespace kiln
