// Whole pages, for all kinds of runs. tests/flow/test_report.py opens them in a browser.
#include <gtest/gtest.h>

#include <limits>

#include "report/page/page.h"
#include "report/sample_run.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxBytes = 10'000'000;  // with pictures

PictureList gallery(std::size_t count, const JudgedImage& image) {
  return {"pictures", "Answers", "", "", std::vector<JudgedImage>(count, image)};
}

// Whatever space is before a percent sign.
bool has(std::string text, const std::string& part) {
  constexpr std::string_view kKept = "\u00a0%";
  for (std::size_t at = 0; (at = text.find(kKept, at)) != text.npos;)
    text.replace(at, kKept.size(), " %");
  return text.find(part) != std::string::npos;
}

TEST(ReportPage, IsUnderTenMegabytesWhateverTheRun) {
  std::vector<std::string> classes;
  for (int i = 0; i < 2500; ++i) classes.push_back(std::to_string(i) + std::string(300, '<'));
  RunRecord run = sample_run(1000, classes);
  for (int i = 0; i < 45'000; ++i) {
    StepRecord step;
    step.epoch = 1 + i / 45;
    step.num_steps = 45;
    step.step = 1 + i % 45;
    step.batch = totals_of(64, 0.1 * (i % 7), 0.5);
    run.steps.push_back(step);
  }
  run.details.epoch = 1000;
  run.details.confusion.num_classes = 2500;
  run.details.confusion.counts.assign(6'250'000, 1);
  run.details.pictures = {gallery(500, {.file = "a.png",
                                        .truth = 1,
                                        .guess = 2,
                                        .thumbnail = {256, 256, std::string(30'000, 'j')}})};
  run.warnings.assign(10'000, std::string(5000, '"'));
  run.end.image_faults.assign(10'000, {"training", std::string(3000, '&'), "bad", false});
  const std::string page = report_html(run);
  EXPECT_LT(page.size(), kMaxBytes);
  EXPECT_TRUE(has(page, "1000 of 2500 classes"));
  EXPECT_TRUE(has(page, "and 9950 more"));
}

TEST(ReportPage, ShowsInterruptionsIfThereAreAny) {
  RunRecord run = sample_run(2);
  EXPECT_FALSE(has(report_html(run), "id=\"interruptions\""));
  run.interruptions.push_back({.time = 3000,
                               .epoch = 2,
                               .step = 17,
                               .checkpoint_time = 1000,
                               .last_seen = 1240,
                               .lost_steps = 1234,
                               .lost_seconds = 240,
                               .host = "<b>node8"});
  run.interruptions.push_back(run.interruptions.front());
  const std::string page = report_html(run);
  EXPECT_TRUE(has(page, "id=\"interruptions\""));
  EXPECT_TRUE(has(page, "epoch 2, step 17"));
  EXPECT_TRUE(has(page, "1,234"));
  EXPECT_TRUE(has(page, "&lt;b&gt;node8"));
  EXPECT_TRUE(has(page, "2 times; 2,468 steps (8 min 00 s)"));
  run.interruptions.assign(1000, run.interruptions.front());
  EXPECT_TRUE(has(report_html(run), "and 950 more"));
}

TEST(ReportPage, EscapesUntrustedNames) {
  const std::string evil = "</script><script>alert(1)</script>\"'\n";
  RunRecord run = sample_run(2, {evil, "dog"});
  run.start.options.emplace_back("train-data-path", evil);
  run.start.command = run.start.model = run.start.device = evil;
  run.start.data.train_path = run.start.data.augment = evil;
  run.warnings = {evil};
  run.end.status = RunStatus::kFailed;
  run.end.failure = evil;
  run.end.image_faults = {{"training", evil, evil, true}};
  run.details.epoch = 2;
  run.details.confusion = matrix_of({{1, 1}, {1, 1}});
  run.details.pictures = {gallery(30, {.file = evil, .guess = 1, .thumbnail = {32, 32, "jpeg"}})};
  for (const std::string& page : {report_html(run), comparison_html({{evil, run}, {"b", run}})}) {
    EXPECT_FALSE(has(page, "alert(1)</script>"));
    EXPECT_FALSE(has(page, "<script>alert"));
  }
}

TEST(ReportPage, ShowsHowBusyTheDeviceWas) {
  RunRecord run = sample_run(2);
  EXPECT_FALSE(has(report_html(run), "id=\"load\""));
  run.epochs[0].cpu_share = 0.8;
  run.epochs[1].cpu_share = 0.9;
  EXPECT_TRUE(has(report_html(run), "Load: 85 % of the compute threads"));
  run.epochs[0].gpu = GpuLoad{90, 300};
  run.epochs[1].gpu = GpuLoad{92, 340};
  EXPECT_TRUE(has(report_html(run), "Load: GPU 91 %, 320 W."));
}

TEST(ReportPage, ShowsHowMuchTheModelCanAnswer) {
  RunRecord run = sample_run(2);
  EXPECT_FALSE(has(report_html(run), "id=\"confidence\""));
  run.details.calibration = {1.5, {{0.5, 100, 60}, {0.75, 400, 392}}};
  const std::string page = report_html(run);
  EXPECT_TRUE(has(page, "<data id=\"temperature\" value=\"1.5\">"));
  EXPECT_TRUE(has(page, "<th scope=\"row\">90 to 95 %</th><td>0.75</td><td>80.0 %</td>"));
  EXPECT_TRUE(has(page, "do not show an accuracy of 98 % at any threshold"));
  run.details.calibration.answers = {{0.75, 299, 299}};
  EXPECT_TRUE(has(report_html(run), "<th scope=\"row\">90 to 98 %</th><td>0.75</td>"));
  run.details.calibration.answers = {{0.75, 300, 100}};
  EXPECT_TRUE(has(report_html(run), "do not show an accuracy of 90 %"));
  EXPECT_FALSE(has(report_html(run), "confidence from"));
}

TEST(ReportPage, ALargeMatrixOfFewImagesIsAListOnly) {
  RunRecord run = sample_run(2);
  ConfusionMatrix& matrix = run.details.confusion;
  matrix.num_classes = 47;
  matrix.counts.assign(47 * 47, 0);
  for (std::size_t i = 0; i < 47; ++i) matrix.counts[47 * i + (i + 1) % 47] = 1;
  EXPECT_FALSE(has(report_html(run), "class=\"matrix"));
  EXPECT_TRUE(has(report_html(run), "Confused most often"));
  for (auto& count : matrix.counts) count *= 3;
  EXPECT_TRUE(has(report_html(run), "class=\"matrix"));
}

TEST(ReportPage, OneEpochHasNoCurvesUnlessOfItsSteps) {
  RunRecord run = sample_run(1);
  run.steps.resize(5);
  EXPECT_FALSE(has(report_html(run), "class=\"chart\""));
  StepRecord step;
  step.epoch = 1;
  run.steps.resize(50, step);
  EXPECT_TRUE(has(report_html(run), "<h3>Loss</h3>"));
  EXPECT_FALSE(has(report_html(run), "<h3>Top-1 accuracy</h3>"));
}

TEST(ReportPage, TakesARecordThatContradictsItself) {
  RunRecord run = sample_run(2);
  run.start.data.classes.clear();
  run.start.data.valid_counts = {-5};
  run.details.confusion = matrix_of({{1, 1}, {1, 1}});
  run.details.pictures = {
      gallery(1, {.file = "a.png", .truth = -1, .guess = 70, .confidence = 7, .best = {{90, -1}}})};
  run.epochs[1].valid_seconds = std::numeric_limits<double>::infinity();
  run.epochs[1].train_seconds = std::numeric_limits<double>::quiet_NaN();
  run.epochs[1].learning_rate = -std::numeric_limits<double>::infinity();
  run.steps.resize(1);
  run.start.time = 1e300;
  EXPECT_TRUE(has(report_html(run), "class 70"));
  EXPECT_TRUE(has(report_html({}), "No epoch was finished"));
}

TEST(ReportPage, ADivergedRunShowsNoNan) {
  RunRecord run = sample_run(3);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  run.epochs[2].train.loss_sum = run.epochs[2].valid.loss_sum = nan;
  run.steps.resize(1);
  run.steps[0].epoch = run.steps[0].step = run.steps[0].num_steps = 1;
  run.steps[0].batch = {nan, 0, 16, 16};
  run.end.status = RunStatus::kFailed;
  RunRecord diverged_at_once = run;
  diverged_at_once.epochs = {run.epochs[2]};
  for (std::string page : {report_html(run), report_html(diverged_at_once),
                           comparison_html({{"a", run}, {"b", diverged_at_once}}),
                           comparison_text({{"a", run}, {"b", diverged_at_once}})}) {
    page = page.substr(0, page.find("<script>"));
    EXPECT_TRUE(has(page, "diverged"));
    for (const char* word : {">nan", ">NaN", "-nan", " nan", "\"nan", " NaN", ":nan"})
      EXPECT_FALSE(has(page, word)) << word << page.substr(page.find(word) - 50, 100);
  }
}

TEST(Comparison, SortsShowsAndDiffers) {
  RunRecord better = sample_run(6), worse = sample_run(2), begun = sample_run(0);
  better.start.options[1].second = "0.02";
  begun.end = {};
  std::vector<NamedRun> runs = {{"begun", begun}, {"worse", worse}, {"better", better}};
  sort_by_accuracy(&runs);
  EXPECT_EQ(runs[0].name, "better");
  EXPECT_EQ(runs[2].name, "begun");
  const std::string text = comparison_text(runs);
  EXPECT_TRUE(has(text, "better  85.0 %  81.2 to 88.2"));
  EXPECT_TRUE(has(text, "--learning-rate  0.02    0.01   0.01"));
  EXPECT_TRUE(has(text, "leads by 10.0 points of top-1, which is statistically significant."));
  EXPECT_TRUE(has(comparison_html(runs), "<th scope=\"row\" class=\"text\">learning-rate</th>"));
}

// Of the epoch whose top-1 is shown.
TEST(Comparison, HasTheMacroRecall) {
  const std::vector<std::string> classes = {"a", "b", "c", "d", "e", "f"};
  RunRecord best = sample_run(2, classes), older = sample_run(2, classes);
  for (EpochRecord& epoch : best.epochs) epoch.macro = MacroScores{0.6125, 0.5};
  best.epochs.back().macro->recall = 0.738;
  for (EpochRecord& epoch : older.epochs) epoch.macro.reset();
  const auto rows = comparison_rows({{"a", best}, {"b", older}});
  EXPECT_EQ(rows.at(0).at(4), "macro recall");
  EXPECT_EQ(rows.at(1).at(4), "73.8 %");
  EXPECT_EQ(rows.at(2).at(4), "-");
  EXPECT_TRUE(has(comparison_text({{"a", best}, {"b", older}}), "top-5  macro recall  loss"));
  EXPECT_TRUE(has(comparison_html({{"a", best}, {"b", older}}), ">macro recall</th>"));
  EXPECT_EQ(comparison_rows({{"two classes", sample_run(2)}}).at(0).at(3), "macro recall");
}

TEST(Comparison, SaysWhichDifferencesMayBeChance) {
  RunRecord better = sample_run(6), worse = sample_run(5);
  EXPECT_TRUE(has(comparison_finding({{"a", better}, {"b", worse}}), "may be due to chance"));
  EXPECT_EQ(comparison_finding({{"a", better}}), "");
}

TEST(Comparison, ValidationSetsAreComparedByTheirImagesOfEachClass) {
  RunRecord better = sample_run(6), worse = sample_run(2);
  worse.start.data.valid_path = "shards/val";
  std::swap(worse.start.data.classes[0], worse.start.data.classes[1]);
  EXPECT_TRUE(has(comparison_finding({{"a", better}, {"b", worse}}), "leads by 10.0 points"))
      << "shards of the same images";
  worse.start.data.valid_path = better.start.data.valid_path;
  worse.start.data.valid_counts = {150, 250};
  const std::string finding = comparison_finding({{"a", better}, {"b", worse}});
  EXPECT_FALSE(has(finding, "leads"));
  EXPECT_TRUE(has(finding, "different images"));
  EXPECT_TRUE(has(finding, "85.0 %") && has(finding, "75.0 %")) << "the numbers are shown anyway";
}

}  // namespace
}  // namespace kiln
