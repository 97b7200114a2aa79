#include "tools/tune/search.h"

#include <algorithm>

namespace kiln {
namespace {

constexpr double kWorthIt = 1.03;

}  // namespace

std::string settings_text(const Settings& settings) {
  std::string text;
  for (const auto& [option, value] : settings)
    text += (text.empty() ? "" : ", ") + option + " " + value;
  return text.empty() ? "as given" : text;
}

Settings changed(Settings base, const Settings& changes) {
  for (const auto& change : changes) {
    std::erase_if(base, [&](const auto& old) { return old.first == change.first; });
    base.push_back(change);
  }
  return base;
}

std::optional<Settings> Search::next() const {
  if (!has_begun_) return Settings{};
  if (knob_ == knobs_.size()) return std::nullopt;
  return changed(base_, knobs_[knob_].candidates[candidate_]);
}

void Search::note(const TrialResult& result) {
  if (!has_begun_) {
    has_begun_ = true;
    best_rate_ = first_rate_ = result.images_per_second;
  } else {
    if (result.fault.empty() && result.images_per_second > kWorthIt * best_rate_) {
      best_ = *next();
      best_rate_ = result.images_per_second;
    }
    ++candidate_;
  }
  while (knob_ < knobs_.size() && candidate_ == knobs_[knob_].candidates.size()) {
    ++knob_;
    candidate_ = 0;
    base_ = best_;
  }
}

}  // namespace kiln
