#include "parallel/ranks/peer_status.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

const std::vector<std::string> kHosts = {"a", "b", "c"};

PeerStatus just_heard(std::uint64_t started, const std::string& phase, bool patient = false) {
  return {started, patient, phase, std::chrono::steady_clock::now()};
}

TEST(PeerStatus, MissingRanksAreNamedWithHostAndPhase) {
  const std::vector<PeerStatus> peers = {just_heard(9, "training"), just_heard(7, "evaluating"),
                                         just_heard(9, "training")};
  const std::string text = missing_ranks({peers, kHosts, 0, 9});
  EXPECT_EQ(text, "Missing: rank 1 on host b, evaluating.");
}

TEST(PeerStatus, RanksInAnotherCollectiveAreNamedWithIt) {
  std::vector<PeerStatus> peers(3, just_heard(9, "starting"));
  for (PeerStatus& peer : peers) peer.place = 9;
  peers[1].collective = peers[0].collective = "exchange of settings";
  peers[2].collective = "all-reduce of counts";
  PeerView view{peers, kHosts, 0, 9};
  view.collective = "exchange of settings";
  EXPECT_TRUE(missing_ranks(view).starts_with(
      "Missing: rank 2 on host c, starting, in the all-reduce of counts instead"))
      << missing_ranks(view);
  peers[2].place = 10;  // it has finished this one
  EXPECT_NE(missing_ranks(view).find("network"), std::string::npos);
}

TEST(PeerStatus, SilentRanksAreNamedEvenAfterTheyArrived) {
  std::vector<PeerStatus> peers = {just_heard(9, ""), just_heard(9, "training"), {}};
  peers[1].last_seen = std::chrono::steady_clock::now() - std::chrono::seconds(60);
  const std::string text = missing_ranks({peers, kHosts, 0, 9});
  EXPECT_NE(text.find("rank 1 on host b, last seen training, not responding"), text.npos) << text;
  EXPECT_NE(text.find("rank 2 on host c, not responding"), text.npos) << text;
}

TEST(PeerStatus, WithAllRanksPresentTheNetworkIsSuspected) {
  const std::vector<PeerStatus> peers = {just_heard(4, ""), just_heard(5, ""), just_heard(5, "")};
  EXPECT_NE(missing_ranks({peers, kHosts, 0, 5}).find("network"), std::string::npos);
  EXPECT_FALSE(
      missing_are_patient({peers, kHosts, 0, 5}));  // nobody to wait for: the deadline holds
}

TEST(PeerStatus, OfManyMissingRanksAFewAreNamed) {
  const std::vector<PeerStatus> peers(1000);
  const std::string text = missing_ranks({peers, kHosts, 0, 5});
  EXPECT_LT(text.size(), 400U);
  EXPECT_TRUE(text.ends_with("rank 8, not responding; and 991 more ranks.")) << text;
}

TEST(PeerStatus, RanksThatOthersWatchAreLeftToThem) {
  std::vector<PeerStatus> peers = {{}, just_heard(5, ""), {}};
  peers[0].is_watched = peers[2].is_watched = false;
  EXPECT_NE(missing_ranks({peers, kHosts, 0, 5}).find("rank 0 watches all"), std::string::npos);
  EXPECT_TRUE(missing_are_patient({peers, kHosts, 0, 5}));
  peers[1] = just_heard(4, "training");
  EXPECT_EQ(missing_ranks({peers, kHosts, 0, 5}), "Missing: rank 1 on host b, training.");
  EXPECT_FALSE(missing_are_patient({peers, kHosts, 0, 5}));
}

TEST(PeerStatus, OnlyPatientRanksThatRespondAreWaitedFor) {
  std::vector<PeerStatus> peers = {{}, just_heard(1, "reading the data", true), just_heard(5, "")};
  EXPECT_TRUE(missing_are_patient({peers, kHosts, 0, 5}));
  peers[1].last_seen = std::chrono::steady_clock::now() - std::chrono::seconds(60);
  EXPECT_FALSE(missing_are_patient({peers, kHosts, 0, 5}));
  peers[1] = just_heard(1, "training");
  EXPECT_FALSE(missing_are_patient({peers, kHosts, 0, 5}));
}

}  // namespace
}  // namespace kiln
