#include "run/epoch_validation.h"

#include <cstddef>
#include <utility>

#include "base/system.h"
#include "run/epoch_check.h"
#include "run/plan/class_counts.h"
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
  ValidationVote mine{.has_bad_images = !faults.empty(), .totals = evaluator.totals()};
  result.predictions = evaluator.take_predictions();
  mine.class_counts = class_counts(result.predictions, num_classes);
  const ValidationVote all = vote_on_validation(world, mine);
  if (all.has_bad_images) parts.bad_images.record_on_all_ranks(faults, world, job.log);
  if (all.stop_signal != 0) return all.stop_signal;
  record.valid = all.totals;
  record.macro = macro_scores(all.class_counts);
  record.valid_seconds = watch.seconds();
  world.agree([&] { check_epoch(record); });
  result.logits = evaluator.take_logits();
  return 0;
}

ValidationVote vote_on_validation(World& world, const ValidationVote& mine) {
  std::vector<double> numbers = summed_numbers(mine.totals);
  const auto num_totals = static_cast<std::ptrdiff_t>(numbers.size());
  numbers.insert(numbers.end(), mine.class_counts.begin(), mine.class_counts.end());
  const Vote all = vote(world, ballot(mine.has_bad_images, std::move(numbers)));
  ValidationVote result{.stop_signal = all.stop_signal,
                        .has_bad_images = all.has_bad_images,
                        .totals = mine.totals,
                        .class_counts = {all.numbers.begin() + num_totals, all.numbers.end()}};
  set_summed_numbers(all.numbers, result.totals);
  return result;
}

}  // namespace kiln
