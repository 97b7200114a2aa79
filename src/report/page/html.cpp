#include "report/page/html.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/text.h"

namespace kiln {
namespace {

std::string row_html(const std::vector<std::string>& cells, const std::vector<Column>& columns) {
  std::string html;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string_view align = columns[i].is_number ? "" : " class=\"text\"";
    html += element((i == 0 ? "th scope=\"row\"" : "td") + std::string(align), cells[i]);
  }
  return element("tr", html) + "\n";
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string html;
  for (const char c : printable(text)) {
    if (c == '&')
      html += "&amp;";
    else if (c == '<')
      html += "&lt;";
    else if (c == '>')
      html += "&gt;";
    else if (c == '"')
      html += "&quot;";
    else if (c == '\'')
      html += "&#39;";
    else
      html += c;
  }
  return html;
}

std::string prose(std::string_view text) {
  std::string html = escaped(text);
  bool is_open = false;
  for (std::size_t at = 0; (at = html.find('`', at)) != std::string::npos; is_open = !is_open) {
    if (!is_open && html.find('`', at + 1) == std::string::npos) break;
    html.replace(at, 1, is_open ? "</code>" : "<code>");
  }
  return html;
}

std::string element(std::string_view name_and_attributes, std::string_view html) {
  const std::string_view name = name_and_attributes.substr(0, name_and_attributes.find(' '));
  std::string text = "<";
  text += name_and_attributes;
  text += '>';
  text += html;
  text += "</";
  text += name;
  return text += '>';
}

std::string figure(std::string_view id, double value, std::string_view text) {
  if (!std::isfinite(value)) return element("span id=\"" + std::string(id) + "\"", escaped(text));
  return element("data id=\"" + std::string(id) + formatted("\" value=\"%.9g\"", value),
                 escaped(text));
}

std::string table(std::string_view caption, const std::vector<Column>& columns,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string head;
  for (const Column& column : columns)
    head += element(column.is_number ? "th scope=\"col\"" : "th scope=\"col\" class=\"text\"",
                    escaped(column.title));
  const bool has_head = std::any_of(columns.begin(), columns.end(),
                                    [](const Column& column) { return !column.title.empty(); });
  if (has_head) head = element("thead", element("tr", head));
  std::string body;
  for (const auto& row : rows) body += row_html(row, columns);
  const std::string label = escaped(caption);
  return element(
      "div class=\"scrolls\" tabindex=\"0\" role=\"region\" aria-label=\"" + label + "\"",
      element("table", element("caption", label) + head + element("tbody", body)));
}

std::string folded(std::string_view summary, std::string_view html) {
  return element("details", element("summary", escaped(summary)) + std::string(html));
}

std::string filled(std::string_view text, const TemplateValues& values) {
  std::string html;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t open = std::min(text.find("{{", begin), text.size());
    html += text.substr(begin, open - begin);
    if (open == text.size()) break;
    const std::size_t close = text.find("}}", open);
    const std::string_view name = text.substr(open + 2, close - open - 2);
    const auto value = std::find_if(values.begin(), values.end(),
                                    [&](const auto& pair) { return pair.first == name; });
    if (value == values.end()) throw std::out_of_range("no value for " + std::string(name));
    html += value->second;
    begin = close + 2;
  }
  return html;
}

}  // namespace kiln
