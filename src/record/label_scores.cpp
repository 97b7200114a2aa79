#include "record/label_scores.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace kiln {

std::vector<char> LabelAnswers::have(std::size_t c) const {
  const std::vector<char> has_class = list_from(sets, [&](const std::vector<int>& ids) -> char {
    return std::ranges::binary_search(ids, static_cast<int>(c)) ? 1 : 0;
  });
  return list_from(labels, [&](std::int32_t label) { return has_class[label]; });
}

std::vector<LabelAnswer> ranked_answers(const LabelAnswers& answers, std::size_t c) {
  const std::vector<char> have = answers.have(c);
  std::vector<LabelAnswer> ranked(have.size());
  for (std::size_t i = 0; i < ranked.size(); ++i)
    ranked[i] = {answers.logit(i, c), have[i] != 0, static_cast<std::uint32_t>(i)};
  std::ranges::sort(ranked, [](const LabelAnswer& a, const LabelAnswer& b) {
    return std::tuple(-a.logit, a.is_there, a.image) < std::tuple(-b.logit, b.is_there, b.image);
  });
  return ranked;
}

namespace {

std::int64_t count_there(std::span<const LabelAnswer> ranked) {
  return std::ranges::count(ranked, true, &LabelAnswer::is_there);
}

// Calls `visit` with the number of answers down to each distinct logit, and with how many of them
// have the class.
template <typename Visit>
void for_each_threshold(std::span<const LabelAnswer> ranked, Visit&& visit) {
  std::int64_t hits = 0;
  for (std::size_t k = 0; k < ranked.size(); ++k) {
    hits += ranked[k].is_there ? 1 : 0;
    if (k + 1 == ranked.size() || ranked[k].logit != ranked[k + 1].logit) visit(k + 1, hits);
  }
}

}  // namespace

double average_precision(std::span<const LabelAnswer> ranked) {
  const std::int64_t all = count_there(ranked);
  if (all == 0) return NAN;
  double sum = 0;
  std::int64_t before = 0;
  for_each_threshold(ranked, [&](std::size_t predicted, std::int64_t hits) {
    const double precision = static_cast<double>(hits) / static_cast<double>(predicted);
    sum += static_cast<double>(hits - before) / static_cast<double>(all) * precision;
    before = hits;
  });
  return sum;
}

std::vector<double> precision_by_recall(std::span<const LabelAnswer> ranked) {
  constexpr std::size_t kSteps = 20;
  const std::int64_t all = count_there(ranked);
  if (all == 0) return {};
  std::vector<double> curve(kSteps + 1);
  for_each_threshold(ranked, [&](std::size_t predicted, std::int64_t hits) {
    const double precision = static_cast<double>(hits) / static_cast<double>(predicted);
    const auto reached = static_cast<std::size_t>(hits) * kSteps / static_cast<std::size_t>(all);
    curve[reached] = std::max(curve[reached], precision);
  });
  for (std::size_t i = kSteps; i > 0; --i) curve[i - 1] = std::max(curve[i - 1], curve[i]);
  return curve;
}

std::size_t best_by_f1(std::span<const LabelAnswer> ranked) {
  const std::int64_t all = count_there(ranked);
  std::size_t best = 0;
  double best_f1 = 0;
  for_each_threshold(ranked, [&](std::size_t predicted, std::int64_t hits) {
    const double f1 = 2.0 * hits / (predicted + static_cast<double>(all));
    if (f1 > best_f1) best_f1 = f1, best = predicted;
  });
  return best;
}

ClassScore score_of(std::span<const LabelAnswer> ranked, std::size_t num_predicted) {
  return {.images = count_there(ranked),
          .guesses = static_cast<std::int64_t>(num_predicted),
          .hits = count_there(ranked.first(num_predicted)),
          .average_precision = average_precision(ranked)};
}

namespace {

void keep_surest(std::vector<LabelMistake>& mistakes, std::size_t most) {
  std::ranges::sort(mistakes, {}, [](const LabelMistake& one) {
    return std::tuple(-one.confidence, one.image, one.label);
  });
  if (mistakes.size() > most) mistakes.resize(most);
}

}  // namespace

PredictedLabels predicted_labels(const LabelAnswers& answers,
                                 const std::vector<LabelCalibration>& calibration,
                                 std::size_t most) {
  PredictedLabels judged;
  for (std::size_t c = 0; c < answers.num_classes; ++c) {
    const auto id = static_cast<int>(c);
    const std::vector<LabelAnswer> ranked = ranked_answers(answers, c);
    std::size_t num_predicted = 0;
    for (const LabelAnswer& answer : ranked) {
      const double probability = calibration[c].probability(answer.logit);
      const bool is_predicted = calibration[c].predicts(answer.logit);
      num_predicted += is_predicted ? 1 : 0;
      if (is_predicted && !answer.is_there) judged.extra.push_back({answer.image, id, probability});
      if (!is_predicted && answer.is_there)
        judged.missed.push_back({answer.image, id, 1 - probability});
    }
    judged.scores.push_back(score_of(ranked, num_predicted));
    judged.scores.back().label = id;
    keep_surest(judged.extra, most);
    keep_surest(judged.missed, most);
  }
  return judged;
}

std::vector<LabelPair> label_pairs(const LabelAnswers& answers,
                                   const std::vector<LabelCalibration>& calibration,
                                   std::size_t most) {
  const std::size_t width = answers.num_classes;
  if (width > kMaxPairedClasses) return {};
  std::vector<LabelPair> pairs(width * width);  // [first, second]
  const auto count = [&](const std::vector<int>& ids, std::int64_t LabelPair::*counter) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      for (std::size_t j = i + 1; j < ids.size(); ++j) ++(pairs[ids[i] * width + ids[j]].*counter);
  };
  std::vector<int> predicted;
  for (std::size_t image = 0; image < answers.labels.size(); ++image) {
    count(answers.sets[static_cast<std::size_t>(answers.labels[image])], &LabelPair::images);
    predicted.clear();
    for (std::size_t c = 0; c < width; ++c)
      if (calibration[c].predicts(answers.logit(image, c))) predicted.push_back(c);
    count(predicted, &LabelPair::predicted);
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].first = static_cast<int>(i / width);
    pairs[i].second = static_cast<int>(i % width);
  }
  std::erase_if(pairs, [](const LabelPair& pair) { return pair.images + pair.predicted == 0; });
  std::ranges::stable_sort(pairs, std::ranges::greater{}, [](const LabelPair& pair) {
    return std::max(pair.images, pair.predicted);
  });
  if (pairs.size() > most) pairs.resize(most);
  return pairs;
}

LabelMetrics metrics_of(std::span<const ClassScore> scores) {
  std::int64_t hits = 0, others = 0;
  for (const ClassScore& score : scores) {
    hits += score.hits;
    others += score.images + score.guesses;
  }
  return {.mean_average_precision =
              mean_of(scores, [](const ClassScore& score) { return score.average_precision; }),
          .micro_f1 = others > 0 ? 2 * static_cast<double>(hits) / others : NAN,
          .macro_f1 = mean_of(scores, [](const ClassScore& score) { return score.f1(); })};
}

LabelMetrics metrics_of(const LabelAnswers& answers) {
  return metrics_of(
      predicted_labels(answers, std::vector<LabelCalibration>(answers.num_classes), 0).scores);
}

std::vector<Figure> figures_of(const LabelMetrics& metrics, double exact) {
  std::vector<Figure> figures = {{"mean_average_precision", "Validation/mean average precision",
                                  "mAP", metrics.mean_average_precision},
                                 {"micro_f1", "Validation/micro F1", "micro F1", metrics.micro_f1},
                                 {"macro_f1", "Validation/macro F1", "macro F1", metrics.macro_f1}};
  if (!std::isnan(exact))
    figures.push_back({"exact_match", "Validation/exact match", "exact", exact, true});
  return figures;
}

namespace {

constexpr std::size_t kMaxRows = 1000, kMostBinned = 500, kMostPairs = 30, kMostMistakes = 16;

std::string share_text(double share) {
  return std::isnan(share) ? "–" : percent(share);
}

ResultTable table_of_classes(const LabelAnswers& answers, const std::vector<ClassScore>& scores,
                             const Calibration& calibration,
                             const std::vector<std::string>& classes) {
  std::vector<std::size_t> order(scores.size());
  for (std::size_t c = 0; c < order.size(); ++c) order[c] = c;
  std::ranges::stable_sort(order, {}, [&](std::size_t c) {
    return std::isnan(scores[c].average_precision) ? 2 : scores[c].average_precision;
  });
  ResultTable table{
      .id = "classes",
      .heading = "Results by class",
      .lead =
          "A class is predicted if its probability reaches the threshold. Average "
          "precision does not depend on it: it is the mean precision over all recalls, which the "
          "curve shows from recall 0 % on the left to 100 % on the right.",
      .caption = "Classes, lowest average precision first",
      .columns = {"class", "average precision", "precision", "recall", "F1", "threshold", "images",
                  "predicted", "precision by recall"}};
  if (order.size() > kMaxRows) {
    table.lead += formatted(" Showing %zu of %zu classes.", kMaxRows, order.size());
    order.resize(kMaxRows);
  }
  for (const std::size_t c : order) {
    const ClassScore& score = scores[c];
    table.rows.push_back({classes[c], share_text(score.average_precision),
                          share_text(score.precision()), share_text(score.recall()),
                          share_text(score.f1()),
                          formatted("%.3f", calibration.labels[c].threshold), grouped(score.images),
                          grouped(score.guesses)});
    const std::vector<LabelAnswer> ranked = ranked_answers(answers, c);
    table.curves.push_back(precision_by_recall(ranked));
    if (scores.size() > kMostBinned) continue;
    ConfidenceBins& bins = table.bins.emplace_back();
    for (const LabelAnswer& answer : ranked)
      count_answer(calibration.labels[c].probability(answer.logit), answer.is_there, bins);
  }
  return table;
}

ResultTable table_of_pairs(const std::vector<LabelPair>& pairs,
                           const std::vector<std::string>& classes) {
  ResultTable table{
      .id = "pairs",
      .heading = "Classes that occur together",
      .lead =
          "Two classes that are predicted together far more or less often than images have "
          "both: the model takes one for a sign of the other, or hides it.",
      .caption = "Pairs of classes, most images first",
      .columns = {"class", "and", "images with both", "both predicted"}};
  for (const LabelPair& pair : pairs)
    table.rows.push_back({classes[pair.first], classes[static_cast<std::size_t>(pair.second)],
                          grouped(pair.images), grouped(pair.predicted)});
  return table;
}

// Against answers in a random order.
TaskVerdict verdict_of(double precision, const std::vector<ClassScore>& scores,
                       std::int64_t images) {
  const double chance = mean_of(scores, [&](const ClassScore& score) {
    return score.images > 0 ? share_of(score.images, images) : NAN;
  });
  return {"mean average precision is " + share_text(precision) + "; a random order gets " +
              share_text(chance) + ".",
          precision > chance + 0.2 * (1 - chance)};
}

}  // namespace

LabelResults label_results(const LabelAnswers& answers, const Calibration& calibration,
                           const std::vector<std::string>& classes,
                           const std::function<JudgedImage(const LabelMistake&)>& show) {
  PredictedLabels found = predicted_labels(answers, calibration.labels, kMostMistakes);
  const LabelMetrics metrics = metrics_of(found.scores);
  LabelResults results{std::move(found.scores), {}};
  ValidationDetails& details = results.details;
  details.calibration = calibration;
  details.figures = figures_of(metrics, NAN);
  details.verdict =
      verdict_of(metrics.mean_average_precision, results.scores, std::ssize(answers.labels));
  details.tables.push_back(table_of_classes(answers, results.scores, calibration, classes));
  if (const auto pairs = label_pairs(answers, calibration.labels, kMostPairs); !pairs.empty())
    details.tables.push_back(table_of_pairs(pairs, classes));
  const auto add = [&](const std::vector<LabelMistake>& mistakes, PictureList list) {
    for (const LabelMistake& mistake : mistakes) list.images.push_back(show(mistake));
    if (!mistakes.empty()) details.pictures.push_back(std::move(list));
  };
  add(found.extra, {"mistakes",
                    "Surest labels that are not there",
                    "The images lack these labels, or were given too few.",
                    "predicted",
                    {}});
  add(found.missed, {"missed",
                     "Surest labels that were missed",
                     "The images have these labels, which the model is surest that they lack.",
                     "missed",
                     {}});
  return results;
}

}  // namespace kiln
