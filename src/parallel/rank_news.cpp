#include "parallel/rank_news.h"

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

}  // namespace kiln
