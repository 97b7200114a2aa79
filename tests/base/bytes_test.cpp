#include "base/bytes.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln {
namespace {

struct Place {
  int row = 0, column = 0;
  bool operator==(const Place&) const = default;
};

struct Record {
  std::string name = {};
  bool is_good = false;
  std::vector<Place> places = {};
  std::vector<std::string> notes = {};
  std::vector<Record> parts = {};
  bool operator==(const Record&) const = default;
};

void visit_fields(auto& record, auto&& field) {
  field("name", record.name);
  field("is_good", record.is_good);
  field("places", record.places);
  field("notes", record.notes);
  field("parts", record.parts);
}

const Record kRecord{
    "a", true, {{1, 2}, {3, 4}}, {"", "note"}, {{.name = "b", .notes = {"\0x"}}, {}}};

TEST(Bytes, ValuesComeBack) {
  EXPECT_EQ(from_bytes<Record>(to_bytes(kRecord)), kRecord);
  EXPECT_EQ(from_bytes<std::vector<Record>>(to_bytes(std::vector<Record>{kRecord, {}})),
            (std::vector<Record>{kRecord, {}}));
  EXPECT_EQ(from_bytes<double>(to_bytes(0.1)), 0.1);
  EXPECT_EQ(from_bytes<std::vector<int>>(to_bytes(std::vector<int>{})), std::vector<int>{});
}

TEST(Bytes, AListIsItsLengthAndItsItems) {
  EXPECT_EQ(to_bytes(std::string("ab")), std::string("\2\0\0\0\0\0\0\0ab", 10));
  EXPECT_EQ(to_bytes(std::vector<std::uint8_t>{7}), std::string("\1\0\0\0\0\0\0\0\7", 9));
}

TEST(Bytes, WhatIsMissingOrTooMuchIsRefused) {
  const std::string bytes = to_bytes(kRecord);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(from_bytes<Record>(bytes.substr(0, size)), InternalError) << size;
  EXPECT_THROW(from_bytes<Record>(bytes + "x"), InternalError);
  EXPECT_THROW(from_bytes<std::vector<std::string>>(std::string(8, '\xff')), InternalError);
  EXPECT_THROW(from_bytes<std::vector<double>>(std::string(8, '\xff')), InternalError);
  EXPECT_TRUE(from_bytes<bool>("\2"));
}

}  // namespace
}  // namespace kiln
