// Turns computed scores into the record of an audit: which labels are doubtful, and which images
// are shown.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/transform/image_pipeline.h"
#include "record/audit_record.h"
#include "tools/audit/audit_scan.h"
#include "tools/audit/copies.h"
#include "tools/audit/outliers.h"
#include "train/features/confident_learning.h"

namespace kiln {

// What was found about the images of `set`.
struct AuditFindings {
  const Dataset& set;
  const Dataset* valid;  // nullptr: none
  const ImageLooks& scanned;
  // Includes the images of `valid`, which are numbered after those of `set`.
  const std::vector<ImageCopy>& copies;
  // One row for each judged image; `images` gives the image of each row.
  const JudgedLabels& judged;
  const FeatureRows& features;
  std::span<const std::uint32_t> images;
  TransformSpec pixels;  // for thumbnails
};

// Fills in the lists, the classes, and the counts of images and of agreements. At most `num_shown`
// entries of each list have thumbnails.
void add_findings(const AuditFindings& findings, AuditRecord& record);

}  // namespace kiln
