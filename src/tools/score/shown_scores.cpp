#include "tools/score/shown_scores.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "predict/shown_answers.h"

namespace kiln {

ShownScores::ShownScores(const std::vector<std::string>& classes)
    : counts_(classes.size()), num_shown_(classes.size() + 1), classes_(classes) {}

void ShownScores::add(const Dataset& set, std::uint32_t i, const TransformSpec& pixels,
                      const Score& score) {
  if (score.best.empty()) return;
  ++num_images_;
  const auto guess = static_cast<std::size_t>(score.best.front().id);
  if (!score.is_unsure) ++counts_[guess];
  constexpr std::size_t kFewest = 4;  // of each class, while there is room
  const std::size_t most = std::max(kFewest, kMostDrawn / num_shown_.size());
  std::size_t& shown = num_shown_[score.is_unsure ? counts_.size() : guess];
  if (shown == most || images_.size() == kMostDrawn) return;
  ++shown;
  const auto truth = std::ranges::find(classes_, score.true_label);
  const std::ptrdiff_t label = truth == classes_.end() ? -1 : truth - classes_.begin();
  images_.push_back({judged_image(set, prediction_of(score, i, static_cast<std::int32_t>(label)),
                                  pixels, /*draws=*/true),
                     score.neighbors});
}

void ShownScores::write(AnswersPage page, const std::string& path) {
  page.classes = classes_;
  page.counts = std::move(counts_);
  page.num_images = num_images_;
  std::ranges::stable_sort(images_, {},
                           [](const AnswerOnPage& answer) { return answer.image.guess; });
  page.images = std::move(images_);
  write_file_durably(path, answers_html(page, path));
}

}  // namespace kiln
