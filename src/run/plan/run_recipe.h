// The recipe of a run: from its options to the values that training takes, and to the words that
// tell it.
#pragma once

#include "base/text.h"
#include "config/run_config.h"
#include "inputs/training_inputs.h"
#include "report/record/run_record.h"
#include "train/early_stopping.h"
#include "train/recipe.h"

namespace kiln {

struct TrainingJob;

// Without class weights and the number of epochs, which need all ranks.
Recipe recipe_of(const OptimizationConfig& config, const TrainingInputs& inputs, int num_ranks,
                 Precision precision);

void set_stopping_rule(const OptimizationConfig& config, EarlyStopping& stopping);

// Throws Error kUserError for options that say how epochs are trained, where there are none.
void check_recipe_of_features(const TrainingJob& job);

// A line with --recipe and each option that belongs to it, as it is in effect; none where all of
// them are the designer's.
void plan_recipe(const TrainConfig& config, TextPairs& plan);

}  // namespace kiln
