// training.json: what a training run was asked, saw and did.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/training_record.h"

namespace kiln {

using TextPairs = std::vector<std::pair<std::string, std::string>>;

struct DataRecord {
  std::vector<std::string> classes;
  std::vector<long long> train_counts, valid_counts;  // by class
  int image_height = 0, image_width = 0;
  int resize_short_side = 0;  // 0: images are used as stored
  std::string augment;        // "none", "flip", "standard" or "strong"
  int eval_height = 0, eval_width = 0, eval_resize_short_side = 0;  // likewise, of validation
  std::string normalization;                                        // "half" or "imagenet"
  double mean[3] = {}, std[3] = {};
};

struct TrainingRecord {
  TextPairs options;   // every option as used
  TextPairs versions;  // of the program and its libraries
  DataRecord data;
  std::vector<EpochRecord> epochs;
  std::vector<ImageFaultRecord> image_faults;
  int saved_epoch = 0;
  std::string stopped_early;  // "", "patience" or "signal"
  double start_to_first_step_seconds = 0, total_seconds = 0;
  long long peak_memory_bytes = 0;
};

std::string format_training_json(const TrainingRecord& record);

}  // namespace kiln
