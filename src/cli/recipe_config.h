// How the weights are optimized, apart from the learning rate and its scaling. The defaults are the
// designer's recipe.
#pragma once

#include <string>

namespace kiln {

struct RecipeConfig {
  std::string name = "designer";  // the value of --recipe; what it sets is in the other fields
  std::string optimizer = "sgd";  // a row of train/optimizer/catalogue.h
  double momentum = 0.9;
  double weight_decay = 1e-4;
  bool decays_norm_and_bias = true;
  double clip_norm = 0;  // maximum norm of the gradient; 0: no clipping
  double ema = 0;        // decay of the exponential moving average of the weights; 0: none
  std::string schedule = "polynomial";  // a row of train/schedule/catalogue.h
  double label_smoothing = 0;
  double mixup = 0, cutmix = 0;  // parameters of Beta distributions; 0: off
};

}  // namespace kiln
