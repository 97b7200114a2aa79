// The parts of report.html, each a `<section>` or nothing where the run has nothing to show.
#pragma once

#include <string>

#include "report/run_record.h"
#include "report/run_summary.h"

namespace kiln {

// A `<section>` under a heading; `id` is its anchor. Empty for an empty `html`.
std::string section(const std::string& id, const std::string& heading, const std::string& html);

std::string headline_html(const RunRecord& run);   // title, status and circumstances
std::string verdict_html(const RunRecord& run);    // did it work: the figures
std::string findings_html(const RunRecord& run);   // can it be trusted
std::string curves_html(const RunRecord& run);     // loss, accuracy, learning rate, images/s
std::string time_html(const RunRecord& run);       // where the time went
std::string classes_html(const RunRecord& run);    // a row a class, the worst first
std::string confusion_html(const RunRecord& run);  // which is taken for which
std::string mistakes_html(const RunRecord& run);   // wrong images
std::string warnings_html(const RunRecord& run);   // the log's, and skipped images
std::string data_html(const RunRecord& run);
std::string settings_html(const RunRecord& run);  // command, options, versions

}  // namespace kiln
