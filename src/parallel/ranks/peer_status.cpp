#include "parallel/ranks/peer_status.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace kiln {
namespace {

constexpr std::chrono::seconds kSilence{10};  // of a rank that said that it takes long

bool is_silent(const RankNews& news, std::chrono::duration<double> since) {
  return !news.heard || std::chrono::steady_clock::now() - *news.heard > since;
}

}  // namespace

std::string missing_ranks(const RankView& view) {
  std::string text;
  for (std::size_t other = 0; other < view.news.size(); ++other) {
    const RankNews& news = view.news[other];
    const bool silent = is_silent(news, view.silence);
    if (static_cast<int>(other) == view.rank || (news.started >= view.ticket && !silent)) continue;
    text += (text.empty() ? "Not there: rank " : "; rank ") + std::to_string(other);
    if (other < view.hosts.size()) text += " on host " + view.hosts[other];
    if (!news.phase.empty()) text += (silent ? ", last heard " : ", ") + news.phase;
    if (silent) text += ", does not answer";
  }
  return text.empty() ? "All ranks have arrived, but their data has not: is the network up?"
                      : text + ".";
}

bool missing_are_patient(const RankView& view) {
  bool anybody_missing = false;
  for (std::size_t other = 0; other < view.news.size(); ++other) {
    const RankNews& news = view.news[other];
    if (static_cast<int>(other) == view.rank || news.started >= view.ticket) continue;
    if (!news.patient || is_silent(news, kSilence)) return false;
    anybody_missing = true;
  }
  return anybody_missing;
}

StallWatch::StallWatch(Limits limits, std::function<void(const std::string&)> warn)
    : limits_(limits),
      warn_(std::move(warn)),
      ask_every_s_(std::clamp(std::min(limits.deadline_s, limits.stall_warning_s) / 10, 0.1, 5.0)) {
}

void StallWatch::begin() {
  asked_s_ = 0;
  warned_s_ = 0;
}

bool StallWatch::asks(double waited_s) {
  if (waited_s - asked_s_ <= ask_every_s_) return false;
  asked_s_ = waited_s;
  return true;
}

bool StallWatch::judges(double waited_s) const {
  return waited_s - warned_s_ > limits_.stall_warning_s || waited_s > limits_.deadline_s;
}

void StallWatch::judge(const std::string& collective, double waited_s, RankView view,
                       const std::string& doing) {
  view.silence = std::chrono::duration<double>(std::clamp(4 * ask_every_s_, 1.0, 10.0));
  const std::string story =
      formatted("%.0f s for the %s over all ranks. ", waited_s, collective.c_str());
  if (waited_s - warned_s_ > limits_.stall_warning_s) {
    warned_s_ = waited_s;
    warn_("waiting since " + story + missing_ranks(view));
  }
  if (waited_s > limits_.deadline_s && !missing_are_patient(view))
    throw Error(ErrorCode::kTimeoutOccured, "Waited " + story + missing_ranks(view) +
                                                " This rank was " + doing +
                                                ". --collective-timeout sets how long to wait.");
}

}  // namespace kiln
