// A confusion matrix as a picture: rows are the true classes, columns the guesses, and the darker a
// cell, the larger its share of its row.
#pragma once

#include <string>

#include "base/training_record.h"

namespace kiln {

struct Picture {
  int side = 0;     // pixels
  std::string png;  // the file
};

Picture confusion_picture(const ConfusionMatrix& matrix);

}  // namespace kiln
