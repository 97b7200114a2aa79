// The pictures of `kiln train --explain`.
#pragma once

#include <vector>

#include "base/training_record.h"
#include "run/plan/prepare.h"

namespace kiln {

// Writes heat maps of validation images that the saved model got wrong, into job.explanations.
// Rank 0, once the model directory is written, of which the model is read. A mistake that lies in
// another host's shard is named in a warning; and so is a failure, since the model is complete
// without the pictures.
void explain_mistakes(TrainingJob& job, const std::vector<JudgedImage>& wrong);

}  // namespace kiln
