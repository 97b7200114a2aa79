// The training recipe as plain values. `name` is a row of the table in optimizer/catalogue.h or
// schedule/catalogue.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/vocabulary.h"

namespace kiln {

struct OptimizerPlan {
  std::string name = "sgd";
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double head_rate = 1;              // factor on the learning rate of the head
  double layer_decay = 1;            // from each stage to the one before it
  bool decays_norm_and_bias = true;  // false: no weight decay for one-dimensional parameters
};

struct SchedulePlan {
  std::string name = "polynomial";
  double epochs = 1;         // by --steps, the last may be a part of one
  double warmup_epochs = 0;  // if not below `epochs`, the peak is never reached
  double peak = 0.001;       // learning rate after scaling by the number of ranks
  int steps_per_epoch = 1;
};

struct LossPlan {
  std::vector<double> class_weights = {};  // [C], for the training objective; empty: all 1
  // The share of each label that is spread evenly over all classes. Szegedy et al., "Rethinking the
  // Inception Architecture for Computer Vision", arXiv:1512.00567.
  double label_smoothing = 0;
};

// How the images of a batch are mixed in pairs (epoch.h).
struct MixPlan {
  double mixup = 0, cutmix = 0;  // parameters of Beta distributions; 0: off
  std::uint64_t seed = 1;

  bool mixes() const { return mixup > 0 || cutmix > 0; }
};

struct Recipe {
  OptimizerPlan optimizer;
  SchedulePlan schedule;
  LossPlan loss;
  MixPlan mix;
  double clip_norm = 0;  // maximum norm of a step's gradient; 0: unlimited
  double ema = 0;        // decay of the averaged weights; 0: none
  Precision precision = Precision::kFp32;
  Freeze freeze = Freeze::kNone;
};

}  // namespace kiln
