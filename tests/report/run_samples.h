// Sample runs.
#pragma once

#include <filesystem>
#include <limits>
#include <string>

#include "record/run_file.h"

namespace kiln {

inline const std::string kHostileName =
    "<script>alert(\"1\")</script>,\n\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D 'x' & " +
    std::string(300, 'n');

// Two epochs of two classes, one of which has a hostile name, with every field set.
inline RunRecord hostile_run() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  RunRecord run;
  RunStart& start = run.start;
  start = {.time = 1e9,
           .options = {{"epochs", "2"}, {"train-data-path", kHostileName}},
           .versions = {{"kiln", "0.1.0"}},
           .command = "kiln train --epochs 2",
           .model = "resnet18",
           .device = "CPU",
           .host = "node7",
           .precision = "fp16",
           .precision_reason = "auto: the GPU has compute capability 7.5",
           .num_parameters = 11'000'000,
           .num_ranks = 2,
           .num_epochs = 2,
           .steps_per_epoch = 3,
           .global_batch = 16,
           .data = {}};
  start.data.classes = {"cat", kHostileName};
  start.data.train_counts = {30, 18};
  start.data.valid_counts = {6, 4};
  start.data.image_height = start.data.image_width = 32;
  start.data.augment = "flip";
  start.data.normalization = "half";
  start.data.mean[1] = 0.5;
  for (int epoch = 1; epoch <= 2; ++epoch) {
    StepRecord step;
    step.time = 1e9 + epoch;
    step.epoch = epoch;
    step.num_epochs = 2;
    step.step = 1;
    step.num_steps = 3;
    step.learning_rate = 0.1;
    step.times = {0.1, 0.2, 0.3, 0.4, 0.5};
    step.batch = {epoch == 1 ? 12.5 : nan, 8, 16, 16};
    step.batch_images_per_second = std::numeric_limits<double>::infinity();
    run.steps.push_back(step);
    EpochRecord record;
    record.time = 1e9 + 10 * epoch;
    record.epoch = epoch;
    record.num_steps = 3;
    record.learning_rate = 0.1;
    record.train = {40.0 / epoch, 20, 48, 48};
    record.valid = {8.0 / epoch, 6 + epoch, 10, 10};
    record.macro = MacroScores{0.5 + 0.1 * epoch, 0.4 + 0.1 * epoch};
    record.train_seconds = 3;
    record.valid_seconds = 1;
    record.times = {0.3, 0.6, 0.9, 1.2, 1.5};
    record.communication = CommunicationTime{2, 1};
    record.gpu = GpuLoad{91, 350};
    record.peak_memory_bytes = 400'000'000;
    record.bad_train_images = 1;
    record.skipped_steps = 2;
    if (epoch == 1) record.valid_in_train = 3;
    run.epochs.push_back(record);
  }
  run.warnings = {"a warning about '" + kHostileName + "'"};
  ValidationDetails& details = run.details;
  details.epoch = 2;
  details.confusion.num_classes = 2;
  details.confusion.counts = {5, 1, 1, 3};
  details.calibration = {4.0 / 3, {{0.25, 3, 2}, {1 - 1e-7, 5, 5}}};
  details.pictures = {{"pictures",
                       "Answers",
                       "",
                       "",
                       {{.file = "dog/1.jpg",
                         .truth = 1,
                         .guess = 0,
                         .confidence = 0.9,
                         .best = {{0, 0.9}, {1, 0.1}},
                         .thumbnail = {2, 3, std::string("\xFF\xD8\0x", 4)},
                         .heat_map = {2, 3, "map"}},
                        {.file = "cat/2.jpg", .confidence = 0.8, .best = {}}}}};
  RunEnd& end = run.end;
  end.time = 1e9 + 30;
  end.status = RunStatus::kFinished;
  end.stopped_early = "patience";
  end.saved_epoch = 2;
  end.model_path = "out";
  end.image_faults.push_back({"training", "cat/9.jpg", "not an image", true});
  end.start_to_first_step_seconds = 0.5;
  end.total_seconds = 30;
  end.peak_memory_bytes = 500'000'000;
  return run;
}

inline Interruption sample_interruption() {
  return {.time = 1e9 + 100,
          .epoch = 2,
          .step = 1,
          .checkpoint_time = 1e9 + 15,
          .last_seen = 1e9 + 20,
          .lost_steps = 2,
          .lost_seconds = 5,
          .num_ranks = 2,
          .host = "node8"};
}

// Records such a run: a step and an epoch, twice.
inline void record_run(const RunRecord& run, const std::filesystem::path& file) {
  const auto sink = make_run_file(file);
  sink->start(run.start);
  sink->step(run.steps[0]);
  sink->warning(run.warnings[0]);
  sink->epoch(run.epochs[0], nullptr);
  sink->step(run.steps[1]);
  sink->epoch(run.epochs[1], &run.details);
  sink->end(run);
}

}  // namespace kiln
