#include "record/label_scores.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace kiln {

std::vector<char> LabelAnswers::have(std::size_t c) const {
  std::vector<char> has_class;
  has_class.reserve(label_sets.size());
  for (const std::vector<int>& ids : label_sets)
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
  for (const int id : answers.label_sets[label]) ++matrix.at(id, told);
}

}  // namespace

ToldLabels told_labels(const LabelAnswers& answers,
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

}  // namespace kiln
