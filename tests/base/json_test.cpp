// JSON from strangers: limits of depth and memory, repeated keys, long lists an element at a time.
#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files.h"
#include "peak_memory.h"

namespace kiln {
namespace {

std::string repeated(const std::string& text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

TEST(Json, IsWhatTheLibraryReads) {
  const std::string text =
      R"({"b":[1,-2,3.5,"\u00e4",null,true,{"c":{}}],"a":18446744073709551615})";
  EXPECT_EQ(parse_json(text), nlohmann::json::parse(text));
  EXPECT_EQ(parse_ordered_json(text), nlohmann::ordered_json::parse(text));
  EXPECT_EQ(parse_ordered_json(text).dump(), nlohmann::ordered_json::parse(text).dump());
  EXPECT_EQ(parse_json("7"), 7);
}

TEST(Json, TellsTheLineOfAFault) {
  try {
    parse_json("{\n\"a\": 1,\n\"b\": tru\n}");
    FAIL();
  } catch (const JsonFault& fault) {
    EXPECT_EQ(fault.line(), 3);
  }
}

TEST(Json, RefusesWhatIsDeepOrLarge) {
  for (const std::string& text :
       {std::string(100'000, '['), std::string(33, '[') + std::string(33, ']')}) {
    EXPECT_THROW(parse_json(text), JsonFault);
    EXPECT_THROW(parse_ordered_json(text), JsonFault);
  }
  EXPECT_THROW(parse_json("[" + repeated("{},", kMaxJsonValues) + "1]"), JsonFault);
  EXPECT_THROW(parse_ordered_json("{\"a\":[" + repeated("{},", 100) + "0]}", 100), JsonFault);
  EXPECT_NO_THROW(parse_json(std::string(32, '[') + std::string(32, ']')));
}

TEST(Json, RepeatedKeysAreRefusedOnDemand) {
  EXPECT_THROW(parse_json(R"({"a":1,"b":{"c":1,"c":2}})", RepeatedKeys::kRefused), JsonFault);
  EXPECT_NO_THROW(parse_json(R"({"a":1,"b":{"a":1}})", RepeatedKeys::kRefused));
  EXPECT_EQ(parse_json(R"({"a":[1],"a":2})")["a"], 2);
}

TEST(Json, ARepeatedKeyInALongListIsNamedWithItsElement) {
  const auto fault_of = [](const std::string& text) -> std::string {
    try {
      parse_json_lists(text, [](const std::string&, const nlohmann::json&) {});
    } catch (const JsonFault& fault) {
      return fault.what();
    }
    return {};
  };
  EXPECT_EQ(fault_of(R"({"b":[1,2,3],"a":[{"c":1},{"c":{"d":1,"d":2}}]})"),
            "has the key 'd' twice, in entry 2 of 'a'");
  EXPECT_EQ(fault_of(R"({"":[{"c":1,"c":1}]})"), "has the key 'c' twice, in entry 1");
  EXPECT_EQ(fault_of(R"({"a":[1],"a":[2]})"), "has the key 'a' twice");
  EXPECT_EQ(fault_of(R"({"a":[{"c":1},{"c":1}],"b":{"c":1}})"), "");
}

// The library needs 50 s for the first and does not end with the second.
TEST(Json, TimeIsProportionalToTheText) {
  std::string tensors = "{\"\":0", keys = "{\"\":0";
  for (int i = 0; i < 60'000; ++i) tensors += ",\"t" + std::to_string(i) + R"(":{"a":[0,1],"b":2})";
  for (int i = 0; i < 300'000; ++i) keys += ",\"" + std::to_string(i) + "\":0";
  const auto use = test::use_of_child([&] {
    parse_json(tensors + "}", RepeatedKeys::kRefused);
    parse_ordered_json(keys + "}");
  });
  EXPECT_LT(use.cpu_seconds, 10);
}

TEST(Json, LongListsAreVisitedAnElementAtATime) {
  std::vector<std::string> seen;
  const nlohmann::json rest =
      parse_json_lists(R"({"x":{"y":[1,2]},"a":[1,[2,3],{"b":[4]}],"c":[],"d":5,"e":["f"]})",
                       [&](const std::string& list, const nlohmann::json& element) {
                         seen.push_back(list + element.dump());
                       });
  EXPECT_EQ(seen, (std::vector<std::string>{"a1", "a[2,3]", "a{\"b\":[4]}", "e\"f\""}));
  EXPECT_EQ(rest, nlohmann::json::parse(R"({"x":{"y":[1,2]},"a":[],"c":[],"d":5,"e":[]})"));
}

TEST(Json, AListOfMillionsTakesTheMemoryOfOneElement) {
  const std::string text = "{\"a\":[" + repeated("{},", 1'500'000) + "0]}";
  const std::size_t peak = test::peak_mib_of([&] {
    std::size_t count = 0;
    parse_json_lists(text, [&](const std::string&, const nlohmann::json&) { ++count; });
    if (count != 1'500'001) throw std::runtime_error("elements are missing");
  });
  EXPECT_LT(peak, 32U);
}

TEST(Untrusted, ALookAtTheFirstBytesOpensRegularFilesAlone) {
  EXPECT_THROW(first_bytes(testing::TempDir(), 8), std::system_error);
  EXPECT_THROW(first_bytes("/dev/zero", 8), std::system_error);
  EXPECT_THROW(first_bytes("/nowhere/at/all", 8), std::system_error);
}

}  // namespace
}  // namespace kiln
