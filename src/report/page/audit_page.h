// The page of `kiln audit`, and its part in the report of a run.
#pragma once

#include <string>
#include <vector>

#include "report/page/page.h"
#include "report/record/audit_record.h"

namespace kiln {

// `audit.html`: the images that deserve a look, most doubtful first, and what to do with them.
// At most `num_shown` pictures of each list; the files beside the page have all.
std::string audit_html(const AuditRecord& record);

// How sure the audit is, and what its lists leave to the reader; warnings first.
std::vector<Finding> audit_findings(const AuditRecord& record);

// A `<section>` for report.html after `--folds`: `doubtful` are images whose labels are probably
// wrong, by models that have not seen them, most doubtful first. Empty for none.
std::string doubtful_html(const DataRecord& data, const std::vector<JudgedImage>& doubtful);

}  // namespace kiln
