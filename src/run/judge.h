// What a run does differently for each task, apart from the step (train/task.h): how the validation
// images are judged, and what that is called. A row for one label an image, judge.cpp, and one for
// several, judge_several.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cli/run_config.h"
#include "record/run_record.h"
#include "run/run.h"
#include "train/evaluation.h"

namespace kiln {

class Judge {
 public:
  virtual ~Judge() = default;
  virtual TaskWords words(const Sources& sources) const = 0;
  // Throws Error kUserError for runs that cannot be judged.
  virtual void check(const Sources& sources, bool weighs_head) const = 0;

  // The weights of the classes in the loss, by the images of each.
  virtual std::vector<double> class_weights(ClassWeights choice,
                                            const std::vector<long long>& counts,
                                            std::size_t num_images) const = 0;

  // The validation images whose logits are kept for measure() and details().
  virtual CalibrationSample sample(std::size_t num_images, std::size_t num_classes) const = 0;
  // What measure() needs of this rank's images, as a sum over all ranks.
  virtual std::vector<double> counts(const std::vector<Prediction>& predictions,
                                     std::size_t num_classes) const = 0;
  // Sets the figures of `record` beside its totals, the same on all ranks. `logits` are those of
  // this rank's images. A collective.
  virtual void measure(const Job& job, std::span<const double> counts, const HostLogits& logits,
                       EpochRecord& record) const = 0;
  // The record's details on the best epoch, but for its number, with the calibration. `predictions`
  // and `logits` are this rank's. A collective; complete on rank 0 only. Throws as
  // fit_temperature().
  virtual ValidationDetails details(const Job& job, const std::vector<Prediction>& predictions,
                                    const HostLogits& logits) const = 0;
};

// The row of the images' task.
const Judge& judge_of(const Dataset& set) noexcept;
const Judge& judge_of_several_labels() noexcept;

// The temperature fitted to `logits`, and how often the model is right at which confidence.
// `logits` are those of this rank's images. A collective; the result is the same on all ranks.
Calibration calibrate(World& world, const HostLogits& logits);

}  // namespace kiln
