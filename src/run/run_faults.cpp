#include "run/run_faults.h"

#include <cerrno>
#include <cmath>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/text.h"

namespace kiln {

void throw_diverged(World& world, const StepRecord& at, int first_bad_step) {
  int first = 0;
  for (const int step : world.gather(first_bad_step))
    if (step > 0 && (first == 0 || step < first)) first = step;
  world.agree([&] {
    throw Error(
        ErrorCode::kFailedToCompleteOperation,
        formatted(
            "The training loss is not a finite number at epoch %d, step %d, with learning rate %g: "
            "training has diverged. Use a lower --learning-rate (a tenth of it is a good next "
            "try).",
            at.epoch, first, at.learning_rate));
  });
  throw InternalError("ranks agreed on a failure that none of them has");
}

void check_epoch(const EpochRecord& record, int batch_size) {
  if (record.train.count == 0 || record.valid.count == 0)
    throw Error(ErrorCode::kInvalidDataset,
                std::string(record.train.count == 0 ? "Training" : "Validation") +
                    " dataset is not valid: none of its images could be decoded. `kiln inspect "
                    "--check` lists why.");
  if (!std::isfinite(record.valid.loss_sum))
    throw Error(ErrorCode::kFailedToCompleteOperation,
                formatted("The validation loss is not a finite number after epoch %d, step %lld, "
                          "with learning rate %g: training has diverged. Use a lower "
                          "--learning-rate (a tenth of it is a good next try).",
                          record.epoch, static_cast<long long>(record.train.count / batch_size),
                          record.learning_rate));
}

std::exception_ptr explained(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::system_error& refusal) {
    const int number = refusal.code().value();
    const std::string found = refusal.what();
    if (number == EMFILE || number == ENFILE)
      return std::make_exception_ptr(
          Error(ErrorCode::kFailedToCompleteOperation,
                found + ". Raise the limit of open files (ulimit -n), or use fewer "
                        "--loader-threads."));
    if (number == ENOMEM)
      return std::make_exception_ptr(
          Error(ErrorCode::kModuleOutOfMemory,
                found + ". Use a smaller --batch-size, or fewer --loader-threads."));
    return failure;
  } catch (...) {
    return failure;
  }
}

}  // namespace kiln
