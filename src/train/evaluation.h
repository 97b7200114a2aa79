// One pass over the validation images, a batch at a time: the sums, and what the model said of each
// image. The caller owns the loop. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/training_record.h"
#include "data/batch_loader.h"
#include "data/device_feed.h"
#include "model/image_model.h"
#include "train/metrics.h"

namespace kiln {

struct Verdict {
  std::uint32_t item = 0;  // index into the items of the loader's set
  std::int32_t truth = 0, guess = 0;
  float confidence = 0;  // softmax of the guess
};

class Evaluator {
 public:
  // All must outlive it. The model is in eval mode from now on.
  Evaluator(ImageModel& model, BatchLoader& loader, DeviceFeed& feed);

  // Evaluates the next batch; false when there is none.
  bool step();
  int steps_done() const { return steps_; }

  // These wait for the device. The caller judges whether the loss is finite.
  Totals totals() const { return metrics_.totals(); }
  // Of the good images, in the loader's order; once.
  std::vector<Verdict> take_verdicts();

 private:
  ImageModel& model_;
  BatchLoader& loader_;
  DeviceFeed& feed_;
  MetricSums metrics_;
  int steps_ = 0;
  std::vector<Verdict> verdicts_;
  // [N] a batch: what was guessed stays on the device until all of it is there.
  std::vector<at::Tensor> confidences_, guesses_;
};

}  // namespace kiln
