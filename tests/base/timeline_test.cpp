#include "base/timeline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"

namespace kiln {
namespace {

using std::chrono::microseconds;

class TimelineTest : public testing::Test {
 protected:
  Timeline::Time at(int us) const { return begin_ + microseconds(us); }
  void add(const std::string& track, const std::string& name, int begin_us, int end_us) {
    timeline_.add(track, name, at(begin_us), at(end_us));
  }
  nlohmann::json events() const { return parse_json(timeline_.json(3)).at("traceEvents"); }
  // In the order in which a viewer shows them.
  std::vector<std::string> tracks() const {
    std::vector<std::string> names(10);
    std::size_t count = 0;
    for (const auto& name : events()) {
      if (name["name"] != "thread_name") continue;
      ++count;
      for (const auto& place : events())
        if (place["name"] == "thread_sort_index" && place["tid"] == name["tid"])
          names[place["args"]["sort_index"].get<std::size_t>()] = name["args"]["name"];
    }
    names.resize(count);
    return names;
  }

  Timeline timeline_;
  const Timeline::Time begin_{std::chrono::hours(1)};
};

TEST_F(TimelineTest, KeepsSpansBetweenBeginAndEnd) {
  add("steps", "too early", 0, 1);
  timeline_.begin();
  add("steps", "step 20", 10, 40);
  timeline_.end();
  add("steps", "too late", 50, 60);
  int spans = 0;
  for (const auto& event : events()) {
    EXPECT_EQ(event["pid"], 3);
    if (event["ph"] != "X") continue;
    ++spans;
    EXPECT_EQ(event["name"], "step 20");
    EXPECT_DOUBLE_EQ(event["ts"].get<double>(), 3.6e9 + 10);
    EXPECT_DOUBLE_EQ(event["dur"].get<double>(), 30);
  }
  EXPECT_EQ(spans, 1);
}

TEST_F(TimelineTest, ShowsStepsFirstAndThreadsByNumber) {
  timeline_.begin();
  for (const char* track : {"loader thread 10", "loader thread 2", Timeline::kSums,
                            Timeline::kDevice, Timeline::kSteps, "loader thread 2"})
    add(track, "x", 0, 1);
  EXPECT_EQ(tracks(), (std::vector<std::string>{"steps", "device", "all-reduces", "loader thread 2",
                                                "loader thread 10"}));
}

TEST_F(TimelineTest, WithoutSpansItIsValid) {
  EXPECT_EQ(events().size(), 1U);
}

TEST_F(TimelineTest, IsBoundedAndSaysWhatIsMissing) {
  timeline_.begin();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([this] {
      for (std::size_t n = 0; n < Timeline::kMaxSpans / 2 + 5; ++n)
        add("loader thread 100", "load an image", 1'000'000'000, 2'000'000'000);
    });
  threads.clear();
  const std::string text = timeline_.json(1000);
  EXPECT_NE(text.find("\"dropped_spans\":10}"), std::string::npos) << text.substr(0, 200);
  EXPECT_LT(text.size(), Timeline::kMaxBytes);
}

}  // namespace
}  // namespace kiln
