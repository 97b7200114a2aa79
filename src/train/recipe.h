// The training recipe as plain values. `name` is a row of the factory table in optimizer.cpp,
// schedule.cpp or loss.cpp.
#pragma once

#include <string>
#include <vector>

#include "base/vocabulary.h"

namespace kiln {

struct OptimizerPlan {
  std::string name = "sgd";
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double head_rate = 1;  // factor on the learning rate of the head
};

struct SchedulePlan {
  std::string name = "polynomial";
  int epochs = 1;
  int warmup_epochs = 0;  // at or above `epochs`, the peak is never reached
  double peak = 0.001;    // the learning rate of the whole job, after scaling for its ranks
  int steps_per_epoch = 1;
};

struct LossPlan {
  std::string name = "cross_entropy";
  std::vector<double> class_weights = {};  // [C], of the training objective; empty: all 1
};

struct Recipe {
  OptimizerPlan optimizer;
  SchedulePlan schedule;
  LossPlan loss;
  Precision precision = Precision::kFp32;
  Freeze freeze = Freeze::kNone;
};

}  // namespace kiln
