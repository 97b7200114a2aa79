#include "record/label_scores.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace kiln {

std::vector<char> LabelAnswers::have(std::size_t c) const {
  std::vector<char> has_class;
  has_class.reserve(sets.size());
  for (const std::vector<int>& ids : sets)
    has_class.push_back(std::ranges::binary_search(ids, static_cast<int>(c)) ? 1 : 0);
  std::vector<char> images;
  images.reserve(labels.size());
  for (const std::int32_t label : labels)
    images.push_back(has_class[static_cast<std::size_t>(label)]);
  return images;
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

template <typename Value>
double mean_of(std::span<const LabelScore> scores, Value&& value) {
  double sum = 0;
  std::int64_t count = 0;
  for (const LabelScore& score : scores)
    if (const double one = value(score); !std::isnan(one)) sum += one, ++count;
  return count > 0 ? sum / static_cast<double>(count) : NAN;
}

}  // namespace

double average_precision(std::span<const LabelAnswer> ranked) {
  const std::int64_t all = count_there(ranked);
  if (all == 0) return NAN;
  double sum = 0;
  std::int64_t before = 0;
  for_each_threshold(ranked, [&](std::size_t told, std::int64_t hits) {
    const double precision = static_cast<double>(hits) / static_cast<double>(told);
    sum += static_cast<double>(hits - before) / static_cast<double>(all) * precision;
    before = hits;
  });
  return sum;
}

std::size_t best_by_f1(std::span<const LabelAnswer> ranked) {
  const std::int64_t all = count_there(ranked);
  std::size_t best = 0;
  double best_f1 = 0;
  for_each_threshold(ranked, [&](std::size_t told, std::int64_t hits) {
    const double f1 =
        2.0 * static_cast<double>(hits) / (static_cast<double>(told) + static_cast<double>(all));
    if (f1 > best_f1) best_f1 = f1, best = told;
  });
  return best;
}

LabelScore score_of(std::span<const LabelAnswer> ranked, std::size_t num_told) {
  return {.images = count_there(ranked),
          .told = static_cast<std::int64_t>(num_told),
          .hits = count_there(ranked.first(num_told)),
          .average_precision = average_precision(ranked)};
}

namespace {

void keep_surest(std::vector<LabelMistake>& mistakes, std::size_t most) {
  std::ranges::sort(mistakes, {}, [](const LabelMistake& one) {
    return std::tuple(-one.confidence, one.image, one.label);
  });
  if (mistakes.size() > most) mistakes.resize(most);
}

void count_together(const LabelAnswers& answers, std::size_t image, int told,
                    ConfusionMatrix& matrix) {
  const auto label = static_cast<std::size_t>(answers.labels[image]);
  for (const int id : answers.sets[label]) ++matrix.at(id, told);
}

}  // namespace

ToldLabels what_is_told(const LabelAnswers& answers,
                        const std::vector<LabelCalibration>& calibration, std::size_t most) {
  ToldLabels judged;
  judged.co_occurrence = empty_matrix(static_cast<int>(answers.num_classes));
  for (std::size_t c = 0; c < answers.num_classes; ++c) {
    const auto id = static_cast<int>(c);
    const std::vector<LabelAnswer> ranked = ranked_answers(answers, c);
    std::size_t num_told = 0;
    for (const LabelAnswer& answer : ranked) {
      const double probability = calibration[c].probability(answer.logit);
      const bool is_told = calibration[c].tells(answer.logit);
      num_told += is_told ? 1 : 0;
      if (is_told && !judged.co_occurrence.empty())
        count_together(answers, answer.image, id, judged.co_occurrence);
      if (is_told && !answer.is_there) judged.told.push_back({answer.image, id, probability});
      if (!is_told && answer.is_there) judged.missed.push_back({answer.image, id, 1 - probability});
    }
    judged.scores.push_back(score_of(ranked, num_told));
    keep_surest(judged.told, most);
    keep_surest(judged.missed, most);
  }
  return judged;
}

LabelMetrics metrics_of(std::span<const LabelScore> scores) {
  std::int64_t hits = 0, others = 0;
  for (const LabelScore& score : scores) {
    hits += score.hits;
    others += score.images + score.told;
  }
  return {
      .mean_average_precision =
          mean_of(scores, [](const LabelScore& score) { return score.average_precision; }),
      .micro_f1 = others > 0 ? 2 * static_cast<double>(hits) / static_cast<double>(others) : NAN,
      .macro_f1 = mean_of(scores, [](const LabelScore& score) { return score.f1(); })};
}

LabelMetrics metrics_of(const LabelAnswers& answers) {
  std::vector<LabelScore> scores;
  for (std::size_t c = 0; c < answers.num_classes; ++c) {
    const std::vector<LabelAnswer> ranked = ranked_answers(answers, c);
    const auto end =
        std::ranges::find_if(ranked, [](const LabelAnswer& answer) { return !(answer.logit > 0); });
    scores.push_back(score_of(ranked, static_cast<std::size_t>(end - ranked.begin())));
  }
  return metrics_of(scores);
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

constexpr std::size_t kMaxRows = 1000, kMaxPoints = 40, kMaxTogether = 40, kMostMistakes = 16;

std::string share_text(double share) {
  return std::isnan(share) ? "–" : percent(share);
}

// Recall and precision from each threshold on, by turns.
std::vector<double> curve_of(const std::vector<AnswerBin>& answers) {
  std::int64_t all = 0, told = 0, hits = 0;
  for (const AnswerBin& bin : answers) all += bin.right;
  std::vector<double> points;
  const std::size_t stride = answers.size() / kMaxPoints + 1;
  for (std::size_t i = answers.size(); all > 0 && i-- > 0;) {
    told += answers[i].images;
    hits += answers[i].right;
    if (i % stride == 0) {
      points.push_back(share_of(hits, all));
      points.push_back(share_of(hits, told));
    }
  }
  return points;
}

ResultTable table_of_classes(const std::vector<LabelScore>& scores, const Calibration& calibration,
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
          "A class is told of an image if its probability reaches the threshold. Average "
          "precision does not depend on it: it is the mean precision over all recalls.",
      .caption = "Classes, lowest average precision first",
      .columns = {"class", "average precision", "precision", "recall", "F1", "threshold", "images",
                  "told"},
      .rows = {},
      .curve_column = "precision by recall"};
  if (order.size() > kMaxRows) {
    table.lead += formatted(" Showing %zu of %zu classes.", kMaxRows, order.size());
    order.resize(kMaxRows);
  }
  for (const std::size_t c : order) {
    const LabelScore& score = scores[c];
    table.rows.push_back({classes[c], share_text(score.average_precision),
                          share_text(score.precision()), share_text(score.recall()),
                          share_text(score.f1()),
                          formatted("%.3f", calibration.labels[c].threshold), grouped(score.images),
                          grouped(score.told)});
    table.curves.push_back(curve_of(calibration.labels[c].answers));
  }
  return table;
}

ResultTable table_of_pairs(const ConfusionMatrix& matrix, const std::vector<std::string>& classes) {
  ResultTable table{
      .id = "co-occurrence",
      .heading = "Told together",
      .lead =
          "Rows are classes that images have, columns classes that they are told. An image "
          "counts in each pair of its classes, so cells beside the diagonal are no mistakes: "
          "they show which classes occur together.",
      .caption = "Images by a true and a told class",
      .columns = {"true ↓ told →"},
      .rows = {}};
  for (int truth = 0; truth < matrix.num_classes; ++truth) {
    table.columns.push_back(classes[static_cast<std::size_t>(truth)]);
    std::vector<std::string>& cells = table.rows.emplace_back();
    cells.push_back(classes[static_cast<std::size_t>(truth)]);
    for (int told = 0; told < matrix.num_classes; ++told)
      cells.push_back(matrix.at(truth, told) > 0 ? grouped(matrix.at(truth, told)) : "");
  }
  return table;
}

// Against answers in a random order.
TaskVerdict verdict_of(double precision, const std::vector<LabelScore>& scores,
                       std::int64_t images) {
  double sum = 0;
  std::int64_t count = 0;
  for (const LabelScore& score : scores)
    if (score.images > 0) sum += share_of(score.images, images), ++count;
  const double chance = share_of(sum, count);
  return {"mean average precision is " + share_text(precision) + "; a random order gets " +
              share_text(chance) + ".",
          precision > chance + 0.2 * (1 - chance)};
}

}  // namespace

LabelResults label_results(const LabelAnswers& answers, const Calibration& calibration,
                           const std::vector<std::string>& classes,
                           const std::function<JudgedImage(const LabelMistake&)>& show) {
  ToldLabels found = what_is_told(answers, calibration.labels, kMostMistakes);
  const LabelMetrics metrics = metrics_of(found.scores);
  LabelResults results{std::move(found.scores), {}};
  ValidationDetails& details = results.details;
  details.calibration = calibration;
  details.figures = figures_of(metrics, NAN);
  details.verdict =
      verdict_of(metrics.mean_average_precision, results.scores, std::ssize(answers.labels));
  details.tables.push_back(table_of_classes(results.scores, calibration, classes));
  if (classes.size() <= kMaxTogether)
    details.tables.push_back(table_of_pairs(found.co_occurrence, classes));
  const auto add = [&](const std::vector<LabelMistake>& mistakes, PictureList list) {
    for (const LabelMistake& mistake : mistakes) list.images.push_back(show(mistake));
    if (!mistakes.empty()) details.pictures.push_back(std::move(list));
  };
  add(found.told, {"mistakes",
                   "Surest labels that are not there",
                   "The images lack these labels, or were given too few.",
                   "told",
                   {}});
  add(found.missed, {"missed",
                     "Surest labels that were missed",
                     "The images have these labels, which the model is surest that they lack.",
                     "missed",
                     {}});
  return results;
}

}  // namespace kiln
