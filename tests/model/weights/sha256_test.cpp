#include "model/weights/fetch_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace kiln {
namespace {

// The examples of NIST for FIPS 180-4.
TEST(Sha256, OfKnownTexts) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, OfFiles) {
  const std::filesystem::path path = testing::TempDir() + "sha256_test";
  std::ofstream(path) << std::string(1'000'000, 'a') << std::string(100'000, 'b');
  EXPECT_EQ(sha256_of_file(path),
            sha256_of(std::string(1'000'000, 'a') + std::string(100'000, 'b')));
  std::ofstream(path) << std::string(1'000'000, 'a');
  EXPECT_EQ(sha256_of_file(path),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  std::filesystem::remove(path);
  EXPECT_THROW(sha256_of_file(path), std::system_error);
  EXPECT_THROW(sha256_of_file(testing::TempDir()), std::system_error);
}

}  // namespace
}  // namespace kiln
