// What models that have not seen the images say of their labels: one for each image, or several.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "data/dataset/dataset.h"
#include "record/audit_record.h"

namespace kiln {

// By confident learning (train/features/confident_learning.h); of several labels, for each class
// that the models know well enough (can_judge_labels()). `logits`: float32 [N, C] on the host, of
// images with these labels of the set. Fills in num_judged, num_agreed, the classes without
// num_doubtful, and the doubtful labels without their images. Returns the rows of the logits that
// the latter are about.
std::vector<std::uint32_t> check_labels(const at::Tensor& logits,
                                        const std::vector<std::int32_t>& labels, const Dataset& set,
                                        AuditRecord& record);

}  // namespace kiln
