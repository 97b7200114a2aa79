#include "run/label_judgment.h"

#include <string>
#include <utility>

#include "predict/explanations.h"
#include "predict/inference.h"
#include "record/label_scores.h"
#include "train/task.h"

namespace kiln {

void visit_fields(Is<GatheredAnswers> auto& answers, auto&& field) {
  field("logits", answers.logits);
  field("labels", answers.labels);
  field("samples", answers.samples);
}

namespace {

constexpr std::size_t kMostWrong = 16;

LabelAnswers answers_of(const Run& run, const GatheredAnswers& gathered) {
  return {gathered.logits, gathered.labels, run.sources.valid.label_sets,
          run.sources.num_classes()};
}

std::vector<JudgedImage> shown(const Run& run, const GatheredAnswers& gathered,
                               const std::vector<LabelMistake>& mistakes) {
  const Dataset& valid = run.sources.valid;
  std::vector<JudgedImage> images;
  for (const auto& [image, label, confidence] : mistakes) {
    const std::uint32_t sample = gathered.samples[image];
    images.push_back({std::string(valid.samples.file_name(sample)), label, label, confidence,
                      thumbnail_of(valid, sample, run.plan.pixels.valid)});
  }
  return images;
}

ValidationDetails judged(const Run& run, const GatheredAnswers& gathered) {
  const LabelAnswers answers = answers_of(run, gathered);
  ValidationDetails details;
  std::vector<LabelCalibration>& labels = details.calibration.labels;
  for (std::size_t c = 0; c < answers.num_classes; ++c)
    labels.push_back(calibrated(ranked_answers(answers, c)));
  ToldLabels found = told_labels(answers, labels, kMostWrong);
  details.labels = std::move(found.scores);
  details.co_occurrence = std::move(found.co_occurrence);
  details.most_wrong = shown(run, gathered, found.told);
  details.missed = shown(run, gathered, found.missed);
  return details;
}

}  // namespace

GatheredAnswers gather_label_answers(World& world, const HostLogits& logits,
                                     const std::vector<Prediction>& predictions) {
  GatheredAnswers mine;
  const LabeledLogits view = logits.view();
  mine.logits.assign(view.logits.begin(), view.logits.end());
  mine.labels.assign(view.labels.begin(), view.labels.end());
  for (const Prediction& one : predictions) mine.samples.push_back(one.sample);
  if (world.size() == 1) return mine;
  GatheredAnswers all;
  for (const GatheredAnswers& theirs : world.gather_on_rank_0(mine)) {
    all.logits.insert(all.logits.end(), theirs.logits.begin(), theirs.logits.end());
    all.labels.insert(all.labels.end(), theirs.labels.begin(), theirs.labels.end());
    all.samples.insert(all.samples.end(), theirs.samples.begin(), theirs.samples.end());
  }
  return all;
}

LabelMetrics label_metrics(Run& run, const GatheredAnswers& gathered) {
  return run.world.from_leader([&] { return metrics_of(answers_of(run, gathered)); });
}

ValidationDetails judge_labels(Run& run, const GatheredAnswers& gathered) {
  ValidationDetails details;
  run.world.agree([&] {
    if (run.world.leads()) details = judged(run, gathered);
  });
  return details;
}

}  // namespace kiln
