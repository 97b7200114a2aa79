// The recipe of a run: derives it from the options, and describes it in the plan.
#pragma once

#include "base/text.h"
#include "cli/run_config.h"
#include "record/run_record.h"
#include "run/inputs/training_inputs.h"
#include "train/recipe.h"

namespace kiln {

struct TrainingJob;

// Leaves out class weights and the number of epochs, which depend on all ranks.
Recipe recipe_of(const OptimizationConfig& config, const TrainingInputs& inputs, int num_ranks,
                 Precision precision);

// Throws Error kUserError for options about training in epochs if the job trains none.
void check_recipe_of_features(const TrainingJob& job);

// Adds a line with --recipe and the effective value of each of its options; none if all of them are
// the designer's.
void plan_recipe(const TrainConfig& config, TextPairs& plan);

}  // namespace kiln
