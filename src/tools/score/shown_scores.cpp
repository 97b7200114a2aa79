#include "tools/score/shown_scores.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/system.h"
#include "predict/shown_answers.h"

namespace kiln {

ShownScores::ShownScores(AnswersPage page)
    : page_(std::move(page)), num_shown_(page_.classes.size() + 1) {
  page_.counts.resize(page_.classes.size());
}

void ShownScores::add(const Dataset& set, std::uint32_t i, const TransformSpec& pixels,
                      const Score& score) {
  if (score.best.empty()) return;
  ++page_.num_images;
  const auto guess = static_cast<std::size_t>(score.best.front().id);
  if (!score.is_unsure) ++page_.counts[guess];
  constexpr std::size_t kFewest = 4;  // of each class, while there is room
  const std::size_t most = std::max(kFewest, kMostDrawn / num_shown_.size());
  std::size_t& shown = num_shown_[score.is_unsure ? page_.counts.size() : guess];
  if (shown == most || page_.images.size() == kMostDrawn) return;
  ++shown;
  const auto truth = std::ranges::find(page_.classes, score.true_label);
  const std::ptrdiff_t label = truth == page_.classes.end() ? -1 : truth - page_.classes.begin();
  page_.images.push_back({judged_image(set, prediction_of(score, i, label), pixels,
                                       /*draws=*/true),
                          score.neighbors});
}

void ShownScores::write(long long num_bad, const std::string& path) {
  page_.time = unix_seconds();
  page_.num_bad = num_bad;
  std::ranges::stable_sort(page_.images, {},
                           [](const AnswerOnPage& answer) { return answer.image.guess; });
  write_file_durably(path, answers_html(page_, path));
}

}  // namespace kiln
