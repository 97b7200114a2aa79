// The pages of `kiln evaluate`.
#pragma once

#include <string>
#include <vector>

#include "report/page/page.h"
#include "report/record/evaluation_record.h"

namespace kiln {

// `evaluation.html`: of one model everything; of several how they compare, with links to the pages
// of each. Limits as report_html()'s.
std::string evaluation_html(const EvaluationRecord& record);

// "evaluation-2.html", of the second of several models.
std::string model_page_name(std::size_t model);
std::string model_page_html(const EvaluationRecord& record, std::size_t model);

// Can the figures be trusted; warnings first.
std::vector<Finding> evaluation_findings(const EvaluatedModel& model);

// Whether the model that is right more often is better than the other, or it may be chance.
std::string pair_finding(const EvaluationRecord& record, const ModelPair& pair);

}  // namespace kiln
