// The pages of `kiln evaluate`.
#pragma once

#include <string>
#include <vector>

#include "record/evaluation.h"
#include "report/page/page.h"

namespace kiln {

// `evaluation.html`: all results of a single model, or a comparison of several with links to the
// page of each. Same size limits as report_html().
std::string evaluation_html(const EvaluationRecord& record);

// The page of one of several models: "evaluation-2.html" for the second.
std::string model_page_name(std::size_t model);
std::string model_page_html(const EvaluationRecord& record, std::size_t model);

// Whether the metrics can be trusted; warnings first.
std::vector<Finding> evaluation_findings(const EvaluatedModel& model);

// Whether the model that is right more often is really better, or the difference may be chance.
std::string pair_finding(const EvaluationRecord& record, const ModelPair& pair);

}  // namespace kiln
