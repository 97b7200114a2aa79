// One pass over the validation images: the sums, and what the model said of each.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/training_record.h"
#include "data/batch_loader.h"
#include "data/device_feed.h"
#include "model/image_model.h"

namespace kiln {

struct Verdict {
  std::uint32_t item = 0;  // index into the items of the loader's set
  std::int32_t truth = 0, guess = 0;
  float confidence = 0;  // softmax of the guess
};

struct Evaluation {
  Totals totals;
  std::vector<Verdict> verdicts;  // of the good images, in the loader's order
};

// Every image once, in eval mode; false when `should_stop` ended it early, and `evaluation` is then
// not whole. The caller judges whether the loss is finite. One thread.
bool evaluate(ImageModel& model, BatchLoader& loader, DeviceFeed& feed, Evaluation* evaluation,
              const std::function<bool()>& should_stop);

}  // namespace kiln
