// HTML building blocks. Plain text becomes HTML only through escaped(), prose() and name_html();
// everything named `html` is already escaped.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

// `text` for_people(), escaped for elements and quoted attributes.
std::string escaped(std::string_view text);
// A sentence: the same, with text between backticks as `<code>`, typographic quotes, and quoted
// names between directional isolates (UAX 9), so that a right-to-left one does not reorder it.
std::string prose(std::string_view text);
// `<li class="x">html</li>` for "li class=\"x\"".
std::string element(std::string_view name_and_attributes, std::string_view html);

// A name or path, cut to `most` characters, which reorders no text around it in any script.
std::string name_html(std::string_view text, std::size_t most = 60);

// A value that scripts and tests can parse: `<data id="best-top1" value="0.7134">71.3 %</data>`.
std::string figure(std::string_view id, double value, std::string_view text);
std::string percent_figure(std::string_view id, double share);

// The title of a column, plain text, and what is below it. A table without any titles has no
// header.
struct Column {
  Column(const char* text) : title(text) {}
  Column(std::string text, bool number = true) : title(std::move(text)), is_number(number) {}

  std::string title;
  bool is_number = true;
};
inline Column text_column(std::string title) {
  return {std::move(title), false};
}
using Cells = std::vector<std::string>;  // of a row
// A table in a scrollable box. `rows` hold HTML; the first cell of each is its heading.
std::string table(std::string_view caption, const std::vector<Column>& columns,
                  const std::vector<Cells>& rows);

// A `<details>` element, initially closed; `summary` is plain text.
inline std::string folded(std::string_view summary, const std::string& html) {
  return element("details", element("summary", escaped(summary)) + html);
}

// A `<section>` under a heading; `id` is its anchor. Empty for an empty `html`.
std::string section(const std::string& id, const std::string& heading, const std::string& html);

// The frame shared by all pages: style and script around a header and main part, in one
// self-contained file. Its Content-Security-Policy allows this script by its hash, and forbids
// loading anything.
// `images`: the address of the folder that pictures are named in, for links; may be empty.
// `reload_seconds`: after which the page loads itself again; 0: never.
// `has_folder`: of pictures beside it, which may then be loaded from where it is itself.
std::string page_html(const std::string& title, const std::string& header, const std::string& main,
                      const std::string& images = "", int reload_seconds = 0,
                      bool has_folder = false);
// The relative address of `place`, for a page at `page`; empty if there is nothing there.
std::string address_of(const std::filesystem::path& place, const std::filesystem::path& page);
inline std::string header_html(const std::string& heading, const std::string& more = "") {
  return element("header", element("p class=\"brand\"", "Kiln") + element("h1", heading) + more);
}
// The circumstances, below a heading. Plain text.
inline std::string facts_html(std::string_view text) {
  return element("p class=\"facts\"", escaped(text));
}

// The words of docs/words.md that `html` uses outside of what is folded, with their meanings,
// folded.
std::string words_html(std::string_view html);

// Replaces each `{{name}}` in `text` with its entry in `values`, in one pass. Throws
// std::out_of_range for an unknown name.
using TemplateValues = std::vector<std::pair<std::string_view, std::string>>;
std::string filled(std::string_view text, const TemplateValues& values);

// The files of `assets/`, embedded.

extern const std::string_view
    kPageHtml;  // with {{hash}}, {{places}}, {{reload}}, {{title}}, {{style}}, {{body}}, {{script}}
extern const std::string_view kReportCss;
extern const std::string_view kReportJs;
extern const std::string_view kReportJsHash;  // its SHA-256, 64 hexadecimal digits
extern const std::string_view kWordsMd;  // docs/words.md: "- **a word, another one**: the meaning"

}  // namespace kiln
