#include "report/page/html.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "record/run_summary.h"

namespace kiln {
namespace {

TEST(Escaped, LeavesNoMarkup) {
  EXPECT_EQ(escaped("<script>alert('a & \"b\"')</script>"),
            "&lt;script&gt;alert(&#39;a &amp; &quot;b&quot;&#39;)&lt;/script&gt;");
  EXPECT_EQ(escaped("two\nlines\x01"), "two\\x0alines\\x01");
  EXPECT_EQ(escaped("\xff"), "\\xff");
  EXPECT_EQ(escaped("Äpfel 🍎"), "Äpfel 🍎");
}

TEST(Prose, MarksCode) {
  EXPECT_EQ(prose("more `--epochs` <b>"), "more <code>--epochs</code> &lt;b&gt;");
  EXPECT_EQ(prose("a lone ` stays"), "a lone ` stays");
}

TEST(Prose, IsolatesQuotedNames) {
  EXPECT_EQ(prose("as “שלום”, “b”"), "as “<bdi>שלום</bdi>”, “<bdi>b</bdi>”");
}

TEST(Prose, HasTypographicQuotes) {
  EXPECT_EQ(prose("'resnet18 in m' is the model's, 'it's' 'b'."),
            "“<bdi>resnet18 in m</bdi>” is the model’s, “<bdi>it’s</bdi>” “<bdi>b</bdi>”.");
  EXPECT_EQ(prose("classes' images"), "classes’ images");
}

TEST(Words, AreThoseOfThePageThatAreNotFolded) {
  const std::string html = words_html(
      "<p>It overfits; its epochs, the F1.</p><details>backbone</details><p class=\"head\">a "
      "header</p><td>95 % interval</td>");
  for (const char* word : {"<dt>epoch</dt><dd>", "F1, macro F1", "95 % interval"})
    EXPECT_NE(html.find(word), html.npos) << word;
  for (const char* word : {"backbone", "<dt>head</dt>", "<dt>step"})
    EXPECT_EQ(html.find(word), html.npos) << word;
  EXPECT_EQ(html.find("\\x0a"), html.npos);
  EXPECT_EQ(words_html("<p>nothing</p>"), "");
}

TEST(Page, KeepsPercentSignsWithTheirNumbers) {
  const std::string page =
      page_html("t", "", "<p title=\"5 % left\">5 % of <bdi>10 % off</bdi>, 7 %</p>");
  EXPECT_NE(page.find("<p title=\"5 % left\">5\u00a0% of <bdi>10 % off</bdi>, 7\u00a0%</p>"),
            page.npos)
      << page.substr(page.find("<body>"), 400);
}

TEST(Page, LoadsPicturesOnlyFromAFolderThatItHas) {
  EXPECT_NE(page_html("t", "", "").find("img-src data:;"), std::string::npos);
  EXPECT_NE(page_html("t", "", "", "", 0, /*has_folder=*/true).find("img-src data: 'self' file:;"),
            std::string::npos);
}

TEST(Filled, ReplacesInASinglePass) {
  EXPECT_EQ(filled("<{{a}}>{{b}}{{a}}", {{"a", "{{b}}"}, {"b", "2"}}), "<{{b}}>2{{b}}");
  EXPECT_THROW(filled("{{c}}", {{"a", "1"}}), std::out_of_range);
}

TEST(Table, HasHeadingsForRowsAndColumns) {
  const std::string html = table("Sizes & <more>", {{"name", false}, {"size"}}, {{"a", "1"}});
  EXPECT_NE(html.find("<caption>Sizes &amp; &lt;more&gt;</caption>"), html.npos);
  EXPECT_NE(html.find("<th scope=\"col\">size</th>"), html.npos);
  EXPECT_NE(html.find("<th scope=\"row\" class=\"text\">a</th><td>1</td>"), html.npos);
}

TEST(Labels, AreCutBetweenCharactersAndNeverMissing) {
  EXPECT_EQ(shortened("äöü", 3), "äöü");
  EXPECT_EQ(shortened("äöüß", 3), "äö…");
  DataRecord data;
  data.classes = {"cat", "", std::string(300, 'x')};
  EXPECT_EQ(class_name(data, 0), "cat");
  EXPECT_EQ(class_name(data, 1), "(no name)");
  EXPECT_EQ(class_name(data, 2), std::string(39, 'x') + "…");
  EXPECT_EQ(class_name(data, 3), "class 3");
  EXPECT_EQ(class_name(data, -1), "class -1");
}

}  // namespace
}  // namespace kiln
