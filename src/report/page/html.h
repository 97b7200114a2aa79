// Pieces of HTML. Text becomes HTML in escaped() alone; everything named `html` went through it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

// `text`, made printable, without meaning to a browser: in elements and in quoted attributes.
std::string escaped(std::string_view text);

// The same with what stands between backticks as `<code>`.
std::string prose(std::string_view text);

// `<li class="x">html</li>` of "li class=\"x\"".
std::string element(std::string_view name_and_attributes, std::string_view html);

// A figure that scripts and tests can read back: `<data id="best-top1" value="0.7134">71.3
// %</data>`.
std::string figure(std::string_view id, double value, std::string_view text);

struct Column {
  std::string title;  // plain text; a table whose titles are all empty has no head
  bool is_number = true;
};
// Rows of HTML cells; the first cell of a row is its heading. In a box that scrolls by itself.
std::string table(std::string_view caption, const std::vector<Column>& columns,
                  const std::vector<std::vector<std::string>>& rows);

// A `<details>` that is closed at first; `summary` is plain text.
std::string folded(std::string_view summary, std::string_view html);

// `{{name}}` in `text` replaced, once over, by what `values` has for it. Throws std::out_of_range
// for a name that it has not.
using TemplateValues = std::vector<std::pair<std::string_view, std::string>>;
std::string filled(std::string_view text, const TemplateValues& values);

// The files of `assets/`, built in.

extern const std::string_view kPageHtml;  // with {{title}}, {{style}}, {{body}}, {{script}}
extern const std::string_view kReportCss;
extern const std::string_view kReportJs;

}  // namespace kiln
