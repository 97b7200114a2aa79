#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/page/chart.h"

namespace kiln {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
  return found;
}

TEST(Thinned, KeepsPeaksEndsAndValuesThatAreNotFinite) {
  std::vector<Point> points;
  for (int i = 0; i < 45'000; ++i) points.push_back({static_cast<double>(i), 1});
  points[12'345].y = 90;
  points[23'456].y = -90;
  points[34'567].y = kNan;
  points.back().y = 7;
  const std::vector<Point> kept = thinned(points, 600);
  EXPECT_LE(kept.size(), 3 * 300U + 2);
  double low = 0, high = 0;
  int num_nan = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    low = std::fmin(low, kept[i].y);
    high = std::fmax(high, kept[i].y);
    num_nan += std::isnan(kept[i].y) ? 1 : 0;
    if (i > 0) {
      EXPECT_GT(kept[i].x, kept[i - 1].x);
    }
  }
  EXPECT_EQ(low, -90);
  EXPECT_EQ(high, 90);
  EXPECT_EQ(num_nan, 1);
  EXPECT_EQ(kept.front().x, 0);
  EXPECT_EQ(kept.back().y, 7);
}

TEST(Thinned, LeavesShortSeriesAlone) {
  EXPECT_EQ(thinned({{1, 1}, {2, 2}, {3, 3}}, 3).size(), 3U);
  EXPECT_TRUE(thinned({}, 3).empty());
}

TEST(Scale, BeginsAndEndsAtRoundNumbers) {
  const Scale scale = round_scale(0.13, 0.97, 5);
  EXPECT_DOUBLE_EQ(scale.step, 0.2);
  EXPECT_DOUBLE_EQ(scale.low, 0);
  EXPECT_DOUBLE_EQ(scale.high, 1);
  ASSERT_EQ(scale.marks().size(), 6U);
  EXPECT_EQ(scale.mark_text(scale.marks()[3]), "0.6");
  EXPECT_DOUBLE_EQ(scale.place(0.5), 0.5);
}

TEST(Scale, CoversAnyValues) {
  const std::vector<std::vector<double>> cases = {{},
                                                  {0, 0},
                                                  {5, 5},
                                                  {-3},
                                                  {1e-12, 2e-12},
                                                  {1e30, 2},
                                                  {kNan},
                                                  {kInfinity, 1, kNan, 2},
                                                  {-1, 1},
                                                  {1e-300},
                                                  {1e300},
                                                  {250, 250.0000000001}};
  for (const std::vector<double>& values : cases) {
    const Scale scale = value_scale(values);
    EXPECT_LT(scale.low, scale.high);
    EXPECT_GT(scale.marks().size(), 1U);
    EXPECT_LT(scale.marks().size(), 20U);
    for (const double value : values) {
      if (!std::isfinite(value) || std::abs(value) > 1e100) continue;
      EXPECT_GE(scale.place(value), -1e-9) << value;
      EXPECT_LE(scale.place(value), 1 + 1e-9) << value;
    }
  }
}

TEST(Scale, SharesEndAtAHundredPercent) {
  for (const std::vector<double>& values :
       {std::vector<double>{1, 1}, {0.97}, {0.995, 0.999}, {0.2, 1}, {0.996, 1}, {0, 0}}) {
    const Scale scale = value_scale(values, Unit::kPercent);
    EXPECT_LE(scale.high, 1 + 1e-9) << values.front();
    EXPECT_GE(scale.low, -1e-9);
    EXPECT_LE(scale.place(*std::ranges::max_element(values)), 1 + 1e-9);
    EXPECT_GT(scale.marks().size(), 1U);
  }
}

TEST(HighestShown, LeavesOutTheFewValuesThatWouldFlattenTheRest) {
  std::vector<double> losses = {111, 2.2, 2.1, 1.9, 1.8, 1.75, kInfinity, kNan};
  EXPECT_EQ(highest_shown(losses), 2.2);
  losses.front() = 4;
  EXPECT_EQ(highest_shown(losses), 4);
  EXPECT_EQ(highest_shown({111, 2, 1}), 111) << "too few to tell";
  EXPECT_EQ(highest_shown({1, 1, 1, 1, 1, 2}), 2);
  EXPECT_EQ(highest_shown({}), 0);
  LineChart chart{"Loss", Unit::kPlain, {{"training", 1, false, false, {}}}};
  for (int i = 1; i <= 9; ++i)
    chart.series[0].points.push_back({static_cast<double>(i), i == 1 ? 111 : 2.5 - 0.1 * i});
  const std::string html = line_chart_html(chart);
  EXPECT_NE(html.find("Values above 2.4 are outside the chart; the highest is 111."), html.npos)
      << html;
  EXPECT_NE(html.find("<td>111</td>"), html.npos);
}

TEST(LineChart, AValueThatHoldsIsDrawnSinceThePointBefore) {
  const LineChart chart{
      "Rate", Unit::kPlain, {{"steps", 2, true, true, {{0.5, 1}, {1, 1}, {1.5, 2}, {2, 2}}}}};
  EXPECT_NE(line_chart_html(chart).find("d=\"M0.0 1000.0H250.0L250.0 1000.0H500.0L500.0 0.0H750.0"
                                        "L750.0 0.0H1000.0\""),
            std::string::npos)
      << line_chart_html(chart);
}

TEST(LineChart, HasALabelInWordsAndATableOfItsValues) {
  const LineChart chart{
      "Loss", Unit::kPlain, {{"training", 1, false, false, {{1, 2.5}, {2, 0.25}}}}};
  const std::string html = line_chart_html(chart);
  EXPECT_NE(html.find("aria-label=\"Loss by epoch. training from 2.5 to 0.25."), html.npos);
  EXPECT_NE(html.find("<th scope=\"row\">2</th><td>0.25</td>"), html.npos);
  EXPECT_NE(html.find("data-x=\"1 2\" data-y=\"2.5 0.25\""), html.npos);
}

TEST(LineChart, BreaksTheLineWhereAValueIsNotFinite) {
  const LineChart chart{
      "Loss",
      Unit::kPlain,
      {{"training", 1, false, false, {{1, 3}, {2, kNan}, {3, 2}, {4, kInfinity}}}}};
  const std::string html = line_chart_html(chart);
  EXPECT_NE(html.find("data-x=\"1 3\" data-y=\"3 2\""), html.npos);
  EXPECT_NE(html.find("<td>diverged</td>"), html.npos);
  EXPECT_NE(html.find("<td>∞</td>"), html.npos);
  EXPECT_EQ(html.find("nan"), html.npos);
  EXPECT_EQ(html.find("inf"), html.npos);
}

TEST(LineChart, IsEmptyWithoutPoints) {
  EXPECT_EQ(line_chart_html({"Loss", Unit::kPlain, {{"training", 1, false, false, {}}}}), "");
}

TEST(LineChart, ShowsASinglePoint) {
  const std::string html =
      line_chart_html({"Loss", Unit::kPlain, {{"training", 1, false, false, {{1, 2}}}}});
  EXPECT_EQ(count(html, "h0"), 1U);
}

TEST(LineChart, StaysSmall) {
  LineChart chart{"Loss", Unit::kPlain, {{"training", 1, false, false, {}}}};
  for (int i = 1; i <= 45'000; ++i)
    chart.series[0].points.push_back({static_cast<double>(i), 1.0 / i});
  const std::string html = line_chart_html(chart);
  EXPECT_LT(html.size(), 60'000U);
  EXPECT_LE(count(html, "<tr>"), 202U);
}

}  // namespace
}  // namespace kiln
