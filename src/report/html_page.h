// The pages that Kiln writes: style, script and frame around a body, in one file that asks for no
// other. What the browser is told forbids it to load anything.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "report/run_sink.h"

namespace kiln {

// `title` is plain text.
std::string page_html(std::string_view title, const std::string& body);

// `report.html`: the run as far as it went. Under 2 MB whatever the number of classes, epochs and
// warnings: long lists are cut, and say so.
std::string report_html(const RunRecord& run);

struct NamedRun {
  std::string name;
  RunRecord run;
};
// Several runs side by side: figures, curves, and the options in which they differ.
std::string comparison_html(const std::vector<NamedRun>& runs);

inline constexpr const char* kReportName = "report.html";
// Writes the report at the end of the run.
std::unique_ptr<RunSink> make_html_report(const std::filesystem::path& path);

}  // namespace kiln
