// An invented run for tests to modify.
#pragma once

#include <string>
#include <vector>

#include "record/run_record.h"

namespace kiln {

inline Totals totals_of(std::int64_t images, double loss, double top1) {
  const auto hits = static_cast<std::int64_t>(top1 * static_cast<double>(images));
  return {loss * static_cast<double>(images), hits, images, images};
}

// 1,000 training and 400 validation images; top-1 rises from 0.6 towards 0.9.
inline EpochRecord sample_epoch(int number) {
  EpochRecord epoch;
  epoch.epoch = number;
  epoch.num_steps = 50;
  epoch.learning_rate = 0.01;
  epoch.train_images_per_second = 100;
  epoch.train = totals_of(1000, 1.0 / number, 0.9 - 0.25 / number);
  epoch.valid = totals_of(400, 1.2 / number, 0.9 - 0.3 / number);
  epoch.train_seconds = 10;
  epoch.valid_seconds = 2;
  epoch.times = {
      .data_wait = 0.2, .forward = 3, .backward = 6, .communication = 0, .optimizer = 0.5};
  return epoch;
}

inline RunRecord sample_run(int num_epochs, std::vector<std::string> classes = {"cat", "dog"}) {
  RunRecord run;
  run.start.time = 1;
  run.start.model = "resnet18";
  run.start.num_epochs = num_epochs;
  run.start.options = {{"epochs", std::to_string(num_epochs)}, {"learning-rate", "0.01"}};
  run.start.data.train_path = "photos/train";
  run.start.data.valid_path = "photos/val";
  run.start.data.train_counts.assign(classes.size(), 1000 / static_cast<long long>(classes.size()));
  run.start.data.valid_counts.assign(classes.size(), 400 / static_cast<long long>(classes.size()));
  run.start.data.classes = std::move(classes);
  for (int epoch = 1; epoch <= num_epochs; ++epoch) run.epochs.push_back(sample_epoch(epoch));
  run.end.status = RunStatus::kFinished;
  run.end.saved_epoch = num_epochs;
  run.end.total_seconds = 60;
  return run;
}

inline ConfusionMatrix matrix_of(std::vector<std::vector<std::int64_t>> rows) {
  ConfusionMatrix matrix{static_cast<int>(rows.size()), {}};
  for (const auto& row : rows) matrix.counts.insert(matrix.counts.end(), row.begin(), row.end());
  return matrix;
}

}  // namespace kiln
