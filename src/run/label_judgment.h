// Validation where an image may have several labels: its metrics need the answers of all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "record/training_record.h"
#include "run/run.h"
#include "train/evaluation.h"

namespace kiln {

// The answers of all ranks, on rank 0; elsewhere empty.
struct GatheredAnswers {
  std::vector<float> logits;           // [N, C], row-major
  std::vector<std::int32_t> labels;    // [N]
  std::vector<std::uint32_t> samples;  // [N] indices into the validation images; or empty
};

// `logits` are those of this rank's images, all of them; `predictions` are in the same order, or
// empty. A collective.
GatheredAnswers gather_label_answers(World& world, const HostLogits& logits,
                                     const std::vector<Prediction>& predictions);

// The metrics of the validation images, the same on all ranks. A collective.
LabelMetrics label_metrics(Run& run, const GatheredAnswers& gathered);

// The record's details on the best epoch, but for its number: what is told of each class, with the
// calibration and threshold that are fitted to these images. A collective; complete on rank 0 only.
// Throws as fit_temperature() does.
ValidationDetails judge_labels(Run& run, const GatheredAnswers& gathered);

}  // namespace kiln
