// The page of `kiln audit`, and the audit's section in the report of a run.
#pragma once

#include <string>
#include <vector>

#include "record/audit_record.h"
#include "report/page/page.h"

namespace kiln {

// `audit.html`: the images worth looking at, most doubtful first, and what to do with them. Shows
// at most `num_shown` pictures per list; the files beside the page list all images.
std::string audit_html(const AuditRecord& record);

// How many labels are wrong, in a sentence.
Finding audit_verdict(const AuditRecord& record);

// How certain the audit is, and what the reader still has to decide; warnings first.
std::vector<Finding> audit_findings(const AuditRecord& record);

// A `<section>` of report.html for runs with `--folds`. `doubtful`: images whose labels are
// probably wrong, judged by models that have not seen them, most doubtful first. Empty if there are
// none.
std::string doubtful_html(const DataRecord& data, const std::vector<JudgedImage>& doubtful);

}  // namespace kiln
