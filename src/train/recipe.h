// The training recipe as plain values. `name` is a row of the factory table in optimizer.cpp,
// schedule.cpp or loss.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/vocabulary.h"

namespace kiln {

struct OptimizerPlan {
  std::string name = "sgd";
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double head_rate = 1;              // factor on the learning rate of the head
  bool decays_norm_and_bias = true;  // else what has one dimension has no weight decay
};

struct SchedulePlan {
  std::string name = "polynomial";
  bool is_per_step = false;  // else one rate for a whole epoch
  int epochs = 1;
  double warmup_epochs = 0;  // at or above `epochs`, the peak is never reached
  double peak = 0.001;       // the learning rate of the whole job, after scaling for its ranks
  int steps_per_epoch = 1;
};

struct LossPlan {
  std::string name = "cross_entropy";
  std::vector<double> class_weights = {};  // [C], of the training objective; empty: all 1
  double label_smoothing = 0;              // share of a label that goes to all classes alike
};

// How images of a batch are mixed in pairs (mixing.h).
struct MixPlan {
  double mixup = 0, cutmix = 0;  // parameters of Beta distributions; 0: without
  std::uint64_t seed = 1;

  bool mixes() const { return mixup > 0 || cutmix > 0; }
};

struct Recipe {
  OptimizerPlan optimizer;
  SchedulePlan schedule;
  LossPlan loss;
  MixPlan mix;
  double clip_norm = 0;  // the largest norm of a step's gradient; 0: any
  double ema = 0;        // decay of the averaged weights; 0: none
  Precision precision = Precision::kFp32;
  Freeze freeze = Freeze::kNone;
};

}  // namespace kiln
