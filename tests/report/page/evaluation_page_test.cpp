#include "report/page/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "record/evaluation.h"

namespace kiln {
namespace {

// A model of classes "cat" and "<dog>" on `right` images that it gets right and `wrong` ones.
EvaluatedModel model_with(int right, int wrong, float confidence = 0.9F) {
  Evaluation figures(2, 2);
  for (int i = 0; i < right + wrong; ++i) {
    const int guess = i % 2;
    const std::vector<std::int32_t> top = {guess, 1 - guess};
    std::vector<float> probabilities(2, 1 - confidence);
    probabilities[static_cast<std::size_t>(guess)] = confidence;
    figures.add({i < right ? guess : 1 - guess, top, probabilities});
  }
  EvaluatedModel model{.path = "models/one",
                       .network = "resnet18",
                       .data = {},
                       .figures = figures,
                       .calibration = {1, figures.answers()},
                       .unknown_labels = {},
                       .seen = SeenCounts{},
                       .faults = {}};
  model.data.classes = {"cat", "<dog>"};
  model.details.confusion = figures.confusion();
  return model;
}

EvaluationRecord record_of(std::vector<EvaluatedModel> models) {
  EvaluationRecord record;
  record.data_path = "held-out";
  record.models = std::move(models);
  return record;
}

std::vector<Judged> judged(const EvaluatedModel& model) {
  std::vector<Judged> all;
  for (const Finding& finding : evaluation_findings(model)) all.push_back(finding.judged);
  return all;
}

bool warns(const EvaluatedModel& model) {
  const auto all = judged(model);
  return std::find(all.begin(), all.end(), Judged::kWarning) != all.end();
}

TEST(EvaluationFindings, WarnOfWhatMakesFiguresMisleading) {
  const EvaluatedModel sound = model_with(900, 100);
  EXPECT_FALSE(warns(sound));
  EXPECT_EQ(judged(sound), std::vector<Judged>{Judged::kGood});

  EvaluatedModel model = sound;
  model.seen->training = 1;
  EXPECT_TRUE(warns(model));
  model = sound;
  model.seen->validation = 3;
  EXPECT_TRUE(warns(model));
  model = sound;
  model.num_unknown = 2;
  model.unknown_labels = {"zebra"};
  EXPECT_TRUE(warns(model));
  model = sound;
  model.num_bad = 1;
  EXPECT_TRUE(warns(model));
  EXPECT_TRUE(warns(model_with(600, 400))) << "far more confident than right";
  model = sound;
  model.seen.reset();
  EXPECT_FALSE(warns(model));
  EXPECT_EQ(judged(model), std::vector<Judged>{Judged::kNote});
}

TEST(EvaluationPage, NamesAreEscapedAndFiguresCanBeReadBack) {
  const std::string html = evaluation_html(record_of({model_with(900, 100)}));
  EXPECT_EQ(html.find("<dog>"), std::string::npos);
  EXPECT_NE(html.find("&lt;dog&gt;"), std::string::npos);
  EXPECT_NE(html.find("<data id=\"top1\" value=\"0.9\""), std::string::npos);
  for (const char* id : {"verdict", "trust", "confidence", "calibration", "classes", "confusion"})
    EXPECT_NE(html.find(std::string("<section id=\"") + id + "\""), std::string::npos) << id;
}

std::size_t count_in(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(EvaluationPage, MistakesHaveHeatMapsWhereTheyWereAskedFor) {
  EvaluatedModel model = model_with(900, 100);
  std::vector<JudgedImage> images;
  for (const char* name : {"a.png", "b.png", "unreadable.png"})
    images.push_back({.file = name, .truth = 0, .guess = 1, .confidence = 0.9});
  for (const std::size_t i : {0U, 1U}) images[i].thumbnail = {96, 96, "photo"};
  model.details.pictures = {{"pictures", "Answers", "", "", images}};
  EXPECT_EQ(count_in(evaluation_html(record_of({model})), "<img"), 2U);
  model.details.pictures[0].images[0].heat_map = {96, 96, "map"};
  const std::string explained = evaluation_html(record_of({model}));
  EXPECT_EQ(count_in(explained, "<img"), 3U);
  EXPECT_EQ(count_in(explained, "<figure data-file"), 3U);
}

TEST(EvaluationPage, SeveralModelsAreComparedAndHaveAPageEach) {
  EvaluationRecord record = record_of({model_with(900, 100), model_with(700, 300)});
  ModelPair pair{.first = 0, .second = 1, .answers = {}, .test = {}, .images = {}};
  for (int i = 0; i < 1000; ++i) pair.answers.add(i < 900, i < 700);
  pair.test = mcnemar_test(pair.answers);
  record.pairs = {pair};
  const std::string html = evaluation_html(record);
  for (const std::size_t model : {0U, 1U}) {
    EXPECT_NE(html.find("href=\"" + model_page_name(model) + "\""), std::string::npos);
    EXPECT_NE(model_page_html(record, model).find("id=\"top1\""), std::string::npos);
  }
  EXPECT_NE(pair_finding(record, pair).find("statistically significant"), std::string::npos);
  pair.answers = {.both = 500, .only_first = 3, .only_second = 2, .neither = 5};
  pair.test = mcnemar_test(pair.answers);
  EXPECT_NE(pair_finding(record, pair).find("due to chance"), std::string::npos);
  pair.answers = {.both = 500, .only_first = 2, .only_second = 2, .neither = 5};
  EXPECT_NE(pair_finding(record, pair).find("same number of images"), std::string::npos);
}

TEST(EvaluationFile, FiguresThatDoNotExistAreNullOrEmpty) {
  EvaluatedModel model = model_with(2, 0);
  model.data.classes.push_back("never seen");
  Evaluation figures(3, 1);
  const std::vector<std::int32_t> top = {0};
  const std::vector<float> probabilities = {1, 0, 0};
  figures.add({0, top, probabilities});
  model.figures = figures;
  const EvaluationRecord record = record_of({model});
  EXPECT_NE(evaluation_json(record).find("\"recall\": null"), std::string::npos);
  const std::string csv = classes_csv(record);
  EXPECT_NE(csv.find("never seen,0,0,0,,"), std::string::npos);
}

}  // namespace
}  // namespace kiln
