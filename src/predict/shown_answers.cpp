#include "predict/shown_answers.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/text.h"
#include "predict/explanations.h"

namespace kiln {
namespace {

constexpr std::size_t kMostListed = 1000, kMostWrong = 160, kSurest = 60, kUnsure = 20;
constexpr std::size_t kCells = 40, kOfEachCell = 4;

using Places = std::vector<std::size_t>;
using Cell = std::pair<std::int32_t, std::int32_t>;  // of the confusion matrix

Cell cell_of(const Prediction& answer) {
  return {answer.label, answer.predicted};
}

// How many of the wrong answers of each of the most confused pairs are still to be shown.
std::map<Cell, std::size_t> confused_cells(const std::vector<Prediction>& answers,
                                           const Places& wrong) {
  std::map<Cell, std::size_t> counts;
  for (const std::size_t i : wrong) ++counts[cell_of(answers[i])];
  std::vector<std::pair<Cell, std::size_t>> most(counts.begin(), counts.end());
  std::ranges::stable_sort(most, std::ranges::greater{}, &std::pair<Cell, std::size_t>::second);
  most.resize(std::min(most.size(), kCells));
  for (auto& [cell, count] : most) count = kOfEachCell;
  return {most.begin(), most.end()};
}

// Divides the wrong answers, surest first, into those with pictures (the surest, and some of each
// confused pair) and the others.
std::pair<Places, Places> divided(const std::vector<Prediction>& answers, const Places& wrong) {
  std::map<Cell, std::size_t> left = confused_cells(answers, wrong);
  Places drawn, others;
  for (std::size_t rank = 0; rank < wrong.size(); ++rank) {
    const auto cell = left.find(cell_of(answers[wrong[rank]]));
    const bool is_of_cell = cell != left.end() && cell->second > 0;
    if (is_of_cell) --cell->second;
    const bool is_drawn = drawn.size() < kMostWrong && (is_of_cell || rank < kSurest);
    (is_drawn ? drawn : others).push_back(wrong[rank]);
  }
  return {std::move(drawn), std::move(others)};
}

// The first one of each predicted class, then the second ones, up to `most`.
void add_of_each_class(const std::vector<Prediction>& answers, const Places& from, std::size_t most,
                       Places* shown) {
  std::map<std::int32_t, Places> by_class;
  for (const std::size_t i : from) by_class[answers[i].predicted].push_back(i);
  bool is_added = true;
  for (std::size_t round = 0; is_added; ++round) {
    is_added = false;
    for (const auto& [label, places] : by_class) {
      if (round >= places.size() || shown->size() == most) continue;
      shown->push_back(places[round]);
      is_added = true;
    }
  }
}

}  // namespace

std::vector<std::size_t> answers_to_show(const std::vector<Prediction>& answers) {
  Places wrong, others;
  for (std::size_t i = 0; i < answers.size(); ++i)
    (answers[i].label >= 0 && answers[i].label != answers[i].predicted ? wrong : others)
        .push_back(i);
  const auto confidence = [&](std::size_t i) { return answers[i].confidence; };
  std::ranges::stable_sort(wrong, std::ranges::greater{}, confidence);
  auto [shown, named] = divided(answers, wrong);
  Places unsure = others;
  const std::size_t count = std::min(kUnsure, unsure.size());
  std::ranges::stable_sort(unsure, {}, confidence);
  unsure.resize(count);
  shown.insert(shown.end(), unsure.begin(), unsure.end());
  std::ranges::sort(unsure);
  std::erase_if(others, [&](std::size_t i) { return std::ranges::binary_search(unsure, i); });
  add_of_each_class(answers, others, kMostDrawn, &shown);
  named.resize(std::min(named.size(), kMostListed - shown.size()));
  shown.insert(shown.end(), named.begin(), named.end());
  return shown;
}

PictureList gallery_of(std::vector<JudgedImage> images, bool is_calibrated) {
  return {
      kAnswersGallery, "Answers",
      std::string("The surest mistakes first, which are hard or mislabeled images; then answers "
                  "that are right: the least sure ones, and some of each class.") +
          (is_calibrated ? "" : " Confidences are those before calibration."),
      "", std::move(images)};
}

PictureList unlike_gallery(double separation) {
  constexpr double kHelps = 0.7;
  return {"unlike", "Least like the training images",
          std::string("Of these images, those that are least like the images that the model was "
                      "trained on. Something that is in no class tends to be among them.") +
              (separation >= kHelps
                   ? ""
                   : formatted(" It does not help much for this model: with a class left out, its "
                               "images are told from the others with an area under the ROC curve "
                               "of %.2f (0.5 would be chance).",
                               separation)),
          ""};
}

Prediction prediction_of(const Score& score, std::uint32_t sample, std::int32_t label) {
  Prediction answer{.sample = sample,
                    .label = label,
                    .predicted = score.best[0].id,
                    .confidence = score.best[0].confidence};
  for (std::size_t k = 1; k < std::min(score.best.size(), 1 + Prediction::kNumNext); ++k) {
    answer.next[k - 1] = score.best[k].id;
    answer.next_shares[k - 1] = score.best[k].confidence;
  }
  return answer;
}

Prediction prediction_of(const LabelMistake& mistake, std::uint32_t sample) {
  return {.sample = sample,
          .label = mistake.label,
          .predicted = mistake.label,
          .confidence = static_cast<float>(mistake.confidence)};
}

JudgedImage judged_image(const Dataset& set, const Prediction& answer, const TransformSpec& pixels,
                         bool draws) {
  JudgedImage image{.file = std::string(set.samples.file_name(answer.sample)),
                    .truth = answer.label,
                    .guess = answer.predicted,
                    .confidence = answer.confidence,
                    .best = {{answer.predicted, answer.confidence}}};
  for (std::size_t i = 0; i < answer.next.size() && answer.next[i] >= 0; ++i)
    image.best.push_back({answer.next[i], answer.next_shares[i]});
  if (draws) image.thumbnail = thumbnail_of(set, answer.sample, pixels);
  return image;
}

}  // namespace kiln
