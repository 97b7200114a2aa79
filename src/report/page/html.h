// HTML building blocks. Plain text becomes HTML only through escaped(); everything named `html` is
// already escaped.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

// `text`, made printable and escaped for elements and quoted attributes.
std::string escaped(std::string_view text);

// The same, with text between backticks as `<code>`.
std::string prose(std::string_view text);

// `<li class="x">html</li>` for "li class=\"x\"".
std::string element(std::string_view name_and_attributes, std::string_view html);

// A value that scripts and tests can parse: `<data id="best-top1" value="0.7134">71.3 %</data>`.
std::string figure(std::string_view id, double value, std::string_view text);

struct Column {
  std::string title;  // plain text; a table without any titles has no header
  bool is_number = true;
};
// A table in a scrollable box. `rows` hold HTML cells; the first cell of each row is its heading.
std::string table(std::string_view caption, const std::vector<Column>& columns,
                  const std::vector<std::vector<std::string>>& rows);

// A `<details>` element, initially closed; `summary` is plain text.
std::string folded(std::string_view summary, std::string_view html);

// Replaces each `{{name}}` in `text` with its entry in `values`, in one pass. Throws
// std::out_of_range for an unknown name.
using TemplateValues = std::vector<std::pair<std::string_view, std::string>>;
std::string filled(std::string_view text, const TemplateValues& values);

// The files of `assets/`, embedded.

extern const std::string_view kPageHtml;  // with {{title}}, {{style}}, {{body}}, {{script}}
extern const std::string_view kReportCss;
extern const std::string_view kReportJs;

}  // namespace kiln
