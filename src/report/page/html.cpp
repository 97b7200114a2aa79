#include "report/page/html.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "base/files.h"
#include "base/text.h"
#include "base/url.h"
#include "record/run_summary.h"

namespace fs = std::filesystem;

namespace kiln {

std::string escaped(std::string_view text) {
  constexpr std::pair<char, std::string_view> kEntities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string html;
  for (const char c : for_people(text)) {
    const auto* found = std::ranges::find(kEntities, c, &std::pair<char, std::string_view>::first);
    html += found == std::end(kEntities) ? std::string_view(&c, 1) : found->second;
  }
  return html;
}

static bool is_letter(const std::string& text, std::size_t at) {
  return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
}

// Makes the quotes of escaped text typographic: 'this' and its apostrophes.
static std::string with_typographic_quotes(const std::string& html) {
  constexpr std::string_view kQuote = "&#39;";
  std::string text;
  bool is_open = false;
  for (std::size_t begin = 0;;) {
    const std::size_t at = html.find(kQuote, begin), end = at + kQuote.size();
    text.append(html, begin, at - begin);
    if (at == html.npos) return text;
    const bool after_letter = at > 0 && is_letter(html, at - 1);
    const bool opens = !is_open && !after_letter && html.find(kQuote, end) != html.npos;
    const bool closes = is_open && !(after_letter && is_letter(html, end));
    text += opens ? "“" : closes ? "”" : "’";
    is_open = opens || (is_open && !closes);
    begin = end;
  }
}

std::string prose(std::string_view text) {
  const std::string plain = escaped(text);
  std::string html;
  for (std::size_t begin = 0; begin < plain.size();) {  // what is code stays as it is
    const std::size_t open = plain.find('`', begin), close = plain.find('`', open + 1);
    const bool has_code = open != plain.npos && close != plain.npos;
    html += with_typographic_quotes(plain.substr(begin, has_code ? open - begin : plain.npos));
    if (!has_code) break;
    html += element("code", plain.substr(open + 1, close - open - 1));
    begin = close + 1;
  }
  constexpr std::string_view kOpen = "“", kClose = "”";
  for (std::size_t at = 0; (at = html.find(kOpen, at)) != std::string::npos;) {
    const std::size_t begin = at += kOpen.size(), end = html.find(kClose, begin);
    if (end == std::string::npos) break;
    const std::string name = html.substr(begin, end - begin);
    if (name.find('<') != std::string::npos) continue;  // elements must not overlap
    html.replace(begin, name.size(), element("bdi", name));
  }
  return html;
}

std::string element(std::string_view name_and_attributes, std::string_view html) {
  const std::string_view name = name_and_attributes.substr(0, name_and_attributes.find(' '));
  std::string text = "<";
  text.append(name_and_attributes).append(">").append(html);
  return text.append("</").append(name).append(">");
}

std::string name_html(std::string_view text, std::size_t most) {
  return element("bdi", escaped(shortened(text, most)));
}

std::string figure(std::string_view id, double value, std::string_view text) {
  if (!std::isfinite(value)) return element("span id=\"" + std::string(id) + "\"", escaped(text));
  return element("data id=\"" + std::string(id) + formatted("\" value=\"%.9g\"", value),
                 escaped(text));
}

std::string percent_figure(std::string_view id, double share) {
  return figure(id, share, percent(share));
}

std::string table(std::string_view caption, const std::vector<Column>& columns,
                  const std::vector<Cells>& rows) {
  const auto cell = [&](const std::string& name, std::size_t i, const std::string& html) {
    return element(columns[i].is_number ? name : name + " class=\"text\"", html);
  };
  std::string head, body;
  constexpr std::size_t kLong = 24;  // bytes: longer titles wrap
  for (std::size_t i = 0; i < columns.size(); ++i)
    head += cell(columns[i].title.size() > kLong
                     ? "th scope=\"col\" style=\"white-space:normal;min-width:12rem\""
                     : "th scope=\"col\"",
                 i, escaped(columns[i].title));
  if (std::ranges::any_of(columns, [](const Column& column) { return !column.title.empty(); }))
    head = element("thead", element("tr", head));
  for (const Cells& row : rows) {
    std::string html;
    for (std::size_t i = 0; i < row.size(); ++i)
      html += cell(i == 0 ? "th scope=\"row\"" : "td", i, row[i]);
    body += element("tr", html) + "\n";
  }
  const std::string label = escaped(caption);
  constexpr std::size_t kMany = 60;  // rows: more scroll in a box of their own
  return element(
      std::string(rows.size() > kMany ? "div class=\"scrolls long\"" : "div class=\"scrolls\"") +
          " tabindex=\"0\" role=\"region\" aria-label=\"" + label + "\"",
      element("table", element("caption", label) + head + element("tbody", body)));
}

std::string section(const std::string& id, const std::string& heading, const std::string& html) {
  if (html.empty()) return "";
  return element("section id=\"" + id + "\"", element("h2", escaped(heading)) + "\n" + html) + "\n";
}

// What is written in `html`, in lowercase, without what is folded, code and values.
static std::string words_of(std::string_view html) {
  constexpr std::string_view kLeftOut[] = {"<details", "<pre", "<code", "<bdi"};
  std::string text;
  for (std::size_t at = 0; at < html.size();) {
    if (html[at] != '<') {
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(html[at++])));
      continue;
    }
    for (const std::string_view tag : kLeftOut)
      if (html.substr(at).starts_with(tag))
        at = std::min(html.find("</" + std::string(tag.substr(1)), at), html.size());
    at = std::min(html.find('>', at), html.size() - 1) + 1;
    text += ' ';
  }
  return text;
}

// Whether `text` has `word`, or its plural.
static bool has_word(const std::string& text, const std::string& word) {
  for (std::size_t at = 0; (at = text.find(word, at)) != text.npos; ++at) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_letter(text, at - 1)) &&
        !is_letter(text, end < text.size() && text[end] == 's' ? end + 1 : end))
      return true;
  }
  return false;
}

std::string words_html(std::string_view html) {
  const std::string text = words_of(html);
  std::string items;
  for (std::size_t begin = 0; (begin = kWordsMd.find("\n- **", begin)) != kWordsMd.npos;) {
    begin += 5;
    const std::size_t middle = kWordsMd.find("**: ", begin);
    const std::string words(kWordsMd.substr(begin, middle - begin));  // "calibrated, calibration"
    const std::size_t end = kWordsMd.find("\n\n", middle), next = kWordsMd.find("\n- **", middle);
    std::string meaning(kWordsMd.substr(middle + 4, std::min(end, next) - (middle + 4)));
    std::ranges::replace(meaning, '\n', ' ');
    if (std::ranges::any_of(items_of(words), [&](const std::string& word) {
          return has_word(text, in_small_letters(trimmed(word)));
        }))
      items += element("dt", escaped(words)) + element("dd", prose(meaning)) + "\n";
  }
  if (items.empty()) return "";
  return element("section id=\"words\"",
                 folded("Words on this page", element("dl class=\"words\"", "\n" + items)));
}

// No line ends between a number and its percent sign. Names and attributes stay as they are.
static std::string with_kept_percents(const std::string& html) {
  std::string text;
  std::size_t begin = 0;
  for (std::size_t at = 0; (at = html.find(" %", begin)) != html.npos; begin = at + 1) {
    const std::size_t tag = html.rfind('<', at);
    const bool is_prose = html.find('>', tag) < at && html.compare(tag, 5, "<bdi>") != 0;
    text.append(html, begin, at - begin).append(is_prose ? "\u00a0" : " ");
  }
  return text.append(html, begin);
}

std::string address_of(const fs::path& place, const fs::path& page) {
  std::error_code fault;
  if (place.empty() || !is_there(place)) return "";
  const fs::path link = fs::proximate(place, fs::absolute(page).parent_path(), fault);
  return fault ? "" : link.generic_string();
}

std::string page_html(const std::string& title, const std::string& header, const std::string& main,
                      const std::string& images, int reload_seconds, bool has_folder) {
  const std::string reload =
      reload_seconds == 0
          ? ""
          : formatted("<meta http-equiv=\"refresh\" content=\"%d\">\n", reload_seconds);
  std::string hash;
  for (std::size_t i = 0; i < kReportJsHash.size(); i += 2)
    hash += static_cast<char>(std::stoi(std::string(kReportJsHash.substr(i, 2)), nullptr, 16));
  return filled(
      kPageHtml,
      {{"hash", base64(hash)},
       {"places", has_folder ? " 'self' file:" : ""},
       {"reload", reload},
       {"title", escaped(title + " – Kiln")},
       {"style", std::string(kReportCss)},
       {"body", with_kept_percents(header + element("main data-images=\"" + escaped(images) + "\"",
                                                    main + words_html(main)))},
       {"script", std::string(kReportJs)}});
}

std::string filled(std::string_view text, const TemplateValues& values) {
  std::string html;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t open = std::min(text.find("{{", begin), text.size());
    html += text.substr(begin, open - begin);
    if (open == text.size()) break;
    const std::size_t close = text.find("}}", open);
    const std::string_view name = text.substr(open + 2, close - open - 2);
    const auto value = std::ranges::find(values, name, &TemplateValues::value_type::first);
    if (value == values.end()) throw std::out_of_range("no value for " + std::string(name));
    html += value->second;
    begin = close + 2;
  }
  return html;
}

}  // namespace kiln
