// What models that have not seen the images say of their labels: one for each image, or several.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"
#include "record/audit_record.h"

namespace kiln {

// An image whose label, or one of whose labels, is probably wrong.
struct LabelDoubt {
  std::uint32_t row = 0;       // of the logits
  std::string suggested;       // as Dataset::label_text()
  double confidence = 0;       // of the class that is there instead, or that is or is not there
  double self_confidence = 0;  // of what the label says of it
};

struct CheckedLabels {
  // Of one label: the images, and those whose label is predicted. Of several: the labels that are
  // given or predicted, and those that are both.
  std::int64_t num_judged = 0, num_agreed = 0;
  std::vector<LabelDoubt> doubts;     // most doubtful first
  std::vector<AuditedClass> classes;  // by class id, without num_doubtful
};

// By confident learning (train/features/confident_learning.h); of several labels, for each class
// that the models know well enough (can_judge_labels()). `logits`: float32 [N, C] on the host, of
// images with these labels of the set.
CheckedLabels check_labels(const at::Tensor& logits, const std::vector<std::int32_t>& labels,
                           const Dataset& set);

}  // namespace kiln
