#include <unistd.h>

#include "base/files.h"
#include "report/html.h"
#include "report/html_assets.h"
#include "report/html_page.h"
#include "report/html_sections.h"

namespace kiln {
namespace {

class HtmlReport : public RunSink {
 public:
  // An earlier run's page would look like this one's, should it be killed.
  explicit HtmlReport(std::filesystem::path path) : path_(std::move(path)) {
    ::unlink(path_.c_str());
  }
  std::string_view name() const override { return kReportName; }
  void end(const RunRecord& run) override { write_file_durably(path_, report_html(run)); }

 private:
  std::filesystem::path path_;
};

}  // namespace

std::string section(const std::string& id, const std::string& heading, const std::string& html) {
  if (html.empty()) return "";
  return element("section id=\"" + id + "\"", element("h2", escaped(heading)) + "\n" + html) + "\n";
}

std::string page_html(std::string_view title, const std::string& body) {
  return filled(kPageHtml, {{"title", escaped(title)},
                            {"style", std::string(kReportCss)},
                            {"body", body},
                            {"script", std::string(kReportJs)}});
}

std::string report_html(const RunRecord& run) {
  const std::string main = verdict_html(run) + findings_html(run) + curves_html(run) +
                           time_html(run) + classes_html(run) + confusion_html(run) +
                           mistakes_html(run) + warnings_html(run) + data_html(run) +
                           settings_html(run);
  return page_html(run_title(run.start) + " – Kiln", headline_html(run) + element("main", main));
}

std::unique_ptr<RunSink> make_html_report(const std::filesystem::path& path) {
  return std::make_unique<HtmlReport>(path);
}

}  // namespace kiln
