// How the weights are optimized, beside the learning rate and what scales it. The defaults are the
// designer's recipe.
#pragma once

#include <string>

#include "base/vocabulary.h"

namespace kiln {

struct RecipeConfig {
  std::string name = "designer";  // of --recipe; what it sets is in the others
  std::string optimizer = "sgd";  // a row of train/optimizer/catalogue.h
  double momentum = 0.9;
  double weight_decay = 1e-4;
  bool decays_norm_and_bias = true;
  double clip_norm = 0;                 // of the gradient; 0: as it is
  double ema = 0;                       // decay of the averaged weights; 0: none
  std::string schedule = "polynomial";  // a row of train/schedule/schedule.cpp
  bool rate_per_step = false;           // else per epoch
  double label_smoothing = 0;
  double mixup = 0, cutmix = 0;  // parameters of Beta distributions; 0: without
  StopWhen stop_when = StopWhen::kPrevious;
  double min_delta = 0;
  int min_epochs = 0;
};

}  // namespace kiln
