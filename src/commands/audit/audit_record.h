// From numbers to the record of an audit: who is doubted, and what of it is shown.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "audit/confident_learning.h"
#include "audit/copies.h"
#include "audit/outliers.h"
#include "commands/audit/audit_scan.h"
#include "data/dataset/dataset.h"
#include "data/transform/image_pipeline.h"
#include "report/record/audit_record.h"

namespace kiln {

// What was found out about the images of `set`.
struct AuditFindings {
  const Dataset& set;
  const Dataset* valid;  // nullptr: none
  const ImageLooks& scanned;
  // Of `valid` too, whose images have the numbers that follow those of `set`.
  const std::vector<ImageCopy>& copies;
  // Rows of the judged images, and the image of each.
  const JudgedLabels& judged;
  const FeatureRows& features;
  std::span<const std::uint32_t> images;
  TransformSpec pixels;  // of thumbnails
};

// Fills the lists, the classes, the counts of images and of agreements; at most `num_shown` entries
// of a list have thumbnails.
void add_findings(const AuditFindings& findings, AuditRecord& record);

}  // namespace kiln
