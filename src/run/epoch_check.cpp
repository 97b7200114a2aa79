#include "run/epoch_check.h"

#include <cmath>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace kiln {

void throw_diverged(World& world, const StepRecord& at, int first_nonfinite_step) {
  int first = 0;
  for (const int step : world.gather(first_nonfinite_step))
    if (step > 0 && (first == 0 || step < first)) first = step;
  world.agree([&] {
    throw Error(
        ErrorCode::kFailedToCompleteOperation,
        formatted("The training loss is not finite in epoch %d, step %d, at learning rate %g: "
                  "training has diverged. Use a lower --learning-rate (try a tenth of it).",
                  at.epoch, first, at.learning_rate));
  });
  throw InternalError("ranks agreed on a failure that none of them reports");
}

void check_epoch(const EpochRecord& record) {
  if (record.train.count == 0 || record.valid.count == 0)
    throw Error(ErrorCode::kInvalidDataset,
                std::string(record.train.count == 0 ? "Training" : "Validation") +
                    " dataset is not valid: none of its images could be decoded. `kiln inspect "
                    "--check` lists why.");
  if (!std::isfinite(record.valid.loss_sum))
    throw Error(
        ErrorCode::kFailedToCompleteOperation,
        formatted("The validation loss is not finite after epoch %d, step %d, at learning rate "
                  "%g: training has diverged. Use a lower --learning-rate (try a tenth of it).",
                  record.epoch, record.num_steps, record.learning_rate));
}

}  // namespace kiln
