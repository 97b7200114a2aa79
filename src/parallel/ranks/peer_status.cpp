#include "parallel/ranks/peer_status.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace kiln {
namespace {

constexpr std::chrono::seconds kSilence{10};  // tolerated from a patient rank
constexpr int kMaxNamed = 8;                  // of the missing ranks

bool is_silent(const PeerStatus& peers, std::chrono::duration<double> since) {
  return !peers.last_seen || std::chrono::steady_clock::now() - *peers.last_seen > since;
}

}  // namespace

std::string missing_ranks(const PeerView& view) {
  std::string text;
  int num_missing = 0;
  bool watches_all = true;
  for (std::size_t other = 0; other < view.peers.size(); ++other) {
    const PeerStatus& peers = view.peers[other];
    const bool silent = is_silent(peers, view.silence);
    const bool is_elsewhere =
        peers.place > 0 && peers.place == view.ticket && peers.collective != view.collective;
    if (static_cast<int>(other) == view.rank ||
        (peers.started >= view.ticket && !silent && !is_elsewhere))
      continue;
    watches_all = watches_all && peers.is_watched;
    if (!peers.is_watched || ++num_missing > kMaxNamed) continue;
    text += (text.empty() ? "Missing: rank " : "; rank ") + std::to_string(other);
    if (other < view.hosts.size()) text += " on host " + view.hosts[other];
    if (!peers.phase.empty()) text += (silent ? ", last seen " : ", ") + peers.phase;
    if (silent) text += ", not responding";
    if (!silent && is_elsewhere)
      text += ", in the " + peers.collective + " instead: start all ranks with the same options";
  }
  if (num_missing > kMaxNamed) text += formatted("; and %d more ranks", num_missing - kMaxNamed);
  if (!text.empty()) return text + ".";
  return watches_all ? "All ranks have started it, but data is not arriving: check the network."
                     : "The ranks that this one watches have started it; rank 0 watches all.";
}

bool missing_are_patient(const PeerView& view) {
  bool anybody_missing = false, watches_all = true;
  for (std::size_t other = 0; other < view.peers.size(); ++other) {
    const PeerStatus& peers = view.peers[other];
    if (static_cast<int>(other) == view.rank || peers.started >= view.ticket) continue;
    watches_all = watches_all && peers.is_watched;
    if (!peers.is_watched) continue;
    if (!peers.patient || is_silent(peers, kSilence)) return false;
    anybody_missing = true;
  }
  return anybody_missing || !watches_all;
}

SuspensionWatch::Clock::duration SuspensionWatch::turn(Clock::time_point now) {
  const Clock::duration gap = now - last_turn_.value_or(now);
  last_turn_ = now;
  return gap > longest_ ? gap : Clock::duration::zero();
}

StallWatch::StallWatch(StallLimits limits, std::function<void(const std::string&)> warn)
    : limits_(limits),
      warn_(std::move(warn)),
      ask_every_s_(std::clamp(std::min(limits.deadline_s, limits.stall_warning_s) / 10, 0.1, 5.0)) {
}

bool StallWatch::asks(double waited_s) {
  if (waited_s - asked_s_ <= ask_every_s_) return false;
  asked_s_ = waited_s;
  return true;
}

void StallWatch::judge(const std::string& collective, double waited_s, PeerView view,
                       const std::string& doing) {
  view.collective = collective;
  view.silence = std::chrono::duration<double>(std::clamp(4 * ask_every_s_, 1.0, 10.0));
  const std::string story =
      formatted("%.0f s for the %s over all ranks. ", waited_s, collective.c_str());
  if (waited_s - warned_s_ > limits_.stall_warning_s) {
    warned_s_ = waited_s;
    warn_("waiting for " + story + missing_ranks(view));
  }
  if (waited_s > limits_.deadline_s && !missing_are_patient(view))
    throw Error(ErrorCode::kTimeoutOccured, "Waited " + story + missing_ranks(view) +
                                                " This rank was " + doing +
                                                ". Use --collective-timeout to wait longer.");
}

}  // namespace kiln
