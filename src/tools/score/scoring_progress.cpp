#include "tools/score/scoring_progress.h"

#include <string>

#include "base/text.h"

namespace kiln {
namespace {

constexpr double kSecondsBetweenLines = 10, kSecondsBetweenLiveLines = 0.1;

}  // namespace

ScoringProgress::ScoringProgress(long long total, Log& log) : total_(total), log_(log) {
  live_.utf8 = locale_is_utf8();
}

void ScoringProgress::show(long long done, long long before) {
  const bool is_live = log_.on_terminal();
  const double now = watch_.seconds();
  if (now - told_ < (is_live ? kSecondsBetweenLiveLines : kSecondsBetweenLines)) return;
  told_ = now;
  live_.columns = live_columns();
  const std::string line = scoring_line(done, total_, now, live_, before);
  is_live ? log_.progress(line) : log_.detail(line);
}

}  // namespace kiln
