// What a confusion matrix says of single classes and of pairs of them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/training_record.h"

namespace kiln {

struct ClassScore {
  int label = 0;             // index into the classes
  std::int64_t images = 0;   // of this class
  std::int64_t guesses = 0;  // images taken for it, rightly or not
  std::int64_t hits = 0;
  // The share of its images that were found, and of its guesses that were right; NaN: of none.
  double recall() const;
  double precision() const;
};

// In the order of the labels; none of an empty matrix.
std::vector<ClassScore> scores_by_label(const ConfusionMatrix& matrix);

// Worst recall first, then more images first; classes without images last.
std::vector<ClassScore> class_scores(const ConfusionMatrix& matrix);

// What images of the class `truth` are taken for most often, when not for it; -1: they never are.
int most_often_taken_for(const ConfusionMatrix& matrix, int truth);

struct Confusion {
  int truth = 0, guess = 0;
  std::int64_t images = 0;
};

// The `most` pairs of different classes that were confused most often.
std::vector<Confusion> worst_confusions(const ConfusionMatrix& matrix, std::size_t most);

// A matrix of at most `most` rows: where there are more classes, those with most errors (images
// missed and images wrongly claimed), and in the last row and column all others together.
struct CondensedMatrix {
  ConfusionMatrix counts;
  std::vector<int> labels;  // of the rows; the row of the others has none
  int num_others = 0;       // classes in the last row; 0: there is no such row
};
CondensedMatrix condensed(const ConfusionMatrix& matrix, int most);

}  // namespace kiln
