#include "store/model_directory.h"

#include <gtest/gtest.h>

#include "base/content_hash.h"
#include "base/error.h"

namespace kiln {
namespace {

std::vector<std::uint64_t> hashes(const std::vector<std::string>& contents) {
  std::vector<std::uint64_t> all;
  for (const std::string& bytes : contents) all.push_back(content_hash(bytes));
  return all;
}

const SeenImages kSome = make_seen_images(hashes({"a", "b", "c", "a"}), hashes({"c", "d"}));

// 28 bytes, then 6 for each of two hashes and one.
std::string small_file() {
  return pack_seen_images({{0x010203040506, 0xf10203040506}, {7}});
}

void expect_seen_fault(const std::string& bytes, const std::string& part) {
  try {
    parse_seen_images(bytes, "folder/seen_images.bin");
    ADD_FAILURE() << "no fault: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModelDirectory);
    EXPECT_NE(error.message().find("'folder/seen_images.bin'"), std::string::npos);
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(SeenImages, AreFoundByTheirContentHash) {
  EXPECT_EQ(kSome.train.size(), 3U);
  EXPECT_EQ(kSome.valid.size(), 2U);
  const auto trained = [](const char* bytes) { return kSome.was_trained_on(content_hash(bytes)); };
  const auto chosen = [](const char* bytes) { return kSome.was_chosen_on(content_hash(bytes)); };
  EXPECT_TRUE(trained("a") && trained("b") && trained("c"));
  EXPECT_FALSE(trained("d") || trained("e"));
  EXPECT_TRUE(chosen("c") && chosen("d"));
  EXPECT_FALSE(chosen("a") || chosen("e"));
}

TEST(SeenImages, HashesAreTheUpper48Bits) {
  const SeenImages seen = make_seen_images({0x010203040506ffff, 0x0102030405060000}, {});
  EXPECT_EQ(seen.train, (std::vector<std::uint64_t>{0x010203040506}));
  EXPECT_TRUE(seen.was_trained_on(0x0102030405061234));
  EXPECT_FALSE(seen.was_trained_on(0x0102030405071234));
}

TEST(SeenImages, ReadsWhatItWrites) {
  for (const SeenImages& written : {kSome, SeenImages{}})
    EXPECT_EQ(parse_seen_images(pack_seen_images(written), "x"), written);
}

TEST(SeenImages, HasTheFormatOfItsHeader) {
  using namespace std::string_literals;
  EXPECT_EQ(small_file(),
            "KILNSEEN\1\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"
            "\x06\x05\x04\x03\x02\x01\x06\x05\x04\x03\x02\xf1\7\0\0\0\0\0"s);
}

TEST(SeenImages, FilesThatAreCutOrTooLongAreRefused) {
  const std::string whole = small_file();
  EXPECT_NO_THROW(parse_seen_images(whole, "x"));
  for (std::size_t size = 0; size < whole.size(); ++size)
    expect_seen_fault(whole.substr(0, size), "it ");
  expect_seen_fault(whole + "x", "bytes of hashes");
  expect_seen_fault(whole + "xxxxxx", "bytes of hashes");
}

TEST(SeenImages, FaultsOfTheHeaderAreNamed) {
  const auto changed = [](std::size_t at, char value) {
    std::string bytes = small_file();
    bytes[at] = value;
    return bytes;
  };
  expect_seen_fault(changed(0, 'X'), "KILNSEEN");
  expect_seen_fault(changed(8, 2), "its version is 2");
  expect_seen_fault(changed(11, 1), "its version is 16777217");
  for (const std::size_t count : {12, 20}) {
    expect_seen_fault(changed(count, 3), "bytes of hashes");
    expect_seen_fault(changed(count + 7, -1), "bytes of hashes");  // memory for none of them
  }
}

TEST(SeenImages, HashesMustAscend) {
  expect_seen_fault(pack_seen_images({{2, 1}, {}}), "ascending");
  expect_seen_fault(pack_seen_images({{}, {3, 3}}), "ascending");
  EXPECT_NO_THROW(parse_seen_images(pack_seen_images({{5}, {3}}), "x"));
}

}  // namespace
}  // namespace kiln
