// The pictures of `kiln train --explain`.
#pragma once

#include <vector>

#include "record/training_record.h"
#include "run/run.h"

namespace kiln {

// Writes heat maps of validation images that the saved model got wrong to `run.outputs`. Call
// on rank 0 once the model directory, from which the model is read, is written. Only warns about
// images that are in another host's shard, and about failures, since the model is complete without
// the pictures.
void explain_mistakes(Run& run, const std::vector<JudgedImage>& wrong);

}  // namespace kiln
