// The numbers of a run, as plain values: train/ makes them, report/ tells them, store/ keeps them
// as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

// Sums over images; averages are over good images only.
struct Totals {
  double loss_sum = 0;
  std::int64_t top1 = 0;
  std::int64_t top5 = 0;
  std::int64_t count = 0;

  double loss() const { return count > 0 ? loss_sum / static_cast<double>(count) : 0; }
  double top1_accuracy() const {
    return count > 0 ? static_cast<double>(top1) / static_cast<double>(count) : 0;
  }
  double top5_accuracy() const {
    return count > 0 ? static_cast<double>(top5) / static_cast<double>(count) : 0;
  }
};

// The designer's iteration line: this batch, and the epoch so far. Averages of times and rates are
// weighted by images.
struct StepRecord {
  int epoch = 0;  // from 1
  int num_epochs = 0;
  int step = 0;  // from 1
  int num_steps = 0;
  double batch_seconds = 0, epoch_seconds = 0;
  double batch_images_per_second = 0, epoch_images_per_second = 0;
  Totals batch, so_far;
  double data_wait_share = 0;  // of the epoch's time so far
  double elapsed_seconds = 0;  // of the epoch so far
};

// Seconds in which gradients were summed over the ranks, and those of them in which nothing else
// was done.
struct CommunicationTime {
  double summing = 0;
  double waiting = 0;
};

struct EpochRecord {
  int epoch = 0;  // from 1
  double learning_rate = 0;
  double average_images_per_second =
      0;  // the designer's train_ips: rates of the batches, averaged over images
  double train_images_per_second = 0;  // images / seconds of the whole epoch
  Totals train, valid;
  double train_seconds = 0, valid_seconds = 0, data_wait_seconds = 0;
  std::optional<CommunicationTime> communication;  // of rank 0, where it is measured
};

struct ImageFaultRecord {
  std::string data_set;  // "training" or "validation"
  std::string file;
  std::string fault;
  bool damaged = false;  // decoded as far as it goes, and used
};

}  // namespace kiln
