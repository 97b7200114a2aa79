#include "run/epoch_validation.h"

#include <cstddef>
#include <span>
#include <utility>

#include "base/system.h"
#include "run/epoch_check.h"
#include "run/prepare/class_counts.h"
#include "run/vote.h"

namespace kiln {

int validate(const ValidationParts& parts, EpochRecord& record, Validation& result) {
  TrainingJob& job = parts.job;
  World& world = job.world;
  const Stopwatch watch;
  const std::size_t num_classes = job.inputs.train.classes.size();
  BatchLoader loader = job.loaders->validation(record.epoch);
  Evaluator evaluator(parts.model, loader, job.validation_uploader(), job.recipe.precision,
                      {job.num_valid_images(), static_cast<int>(num_classes)});
  std::vector<BadImage> faults;
  while (stop_signal() == 0 && evaluator.step()) {
    parts.log.validating(record.epoch, evaluator.steps_done(), loader.num_batches());
    for (BadImage& fault : loader.take_faults()) faults.push_back(std::move(fault));
    if (world.size() == 1)
      parts.bad_images.record(std::exchange(faults, {}), /*leads=*/true, job.log);
  }
  Totals totals = evaluator.totals();
  result.predictions = evaluator.take_predictions();
  // One vote sums the totals, followed by the counts of classes.
  std::vector<double> numbers = summed_numbers(totals);
  const std::size_t num_totals = numbers.size();
  const std::vector<double> counts = class_counts(result.predictions, num_classes);
  numbers.insert(numbers.end(), counts.begin(), counts.end());
  const Vote all = vote(world, ballot(!faults.empty(), std::move(numbers)));
  if (all.has_bad_images) parts.bad_images.record_on_all_ranks(faults, world, job.log);
  if (all.stop_signal != 0) return all.stop_signal;
  set_summed_numbers(all.numbers, totals);
  record.valid = totals;
  record.macro = macro_scores(std::span(all.numbers).subspan(num_totals));
  record.valid_seconds = watch.seconds();
  world.agree([&] { check_epoch(record); });
  result.logits = evaluator.take_logits();
  return 0;
}

}  // namespace kiln
