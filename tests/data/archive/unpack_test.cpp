// Compressed tars: unpacked to an unnamed file, within limits, and refused if damaged. Streams that
// have been read to their end into such a file.
#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/system_calls.h"
#include "data/archive/archive.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::string compressed(const std::string& bytes, int filter) {
  std::string out(bytes.size() + (1 << 20), '\0');
  std::size_t used = 0;
  archive* writer = archive_write_new();
  archive_write_add_filter(writer, filter);
  archive_write_set_format_raw(writer);
  archive_write_set_bytes_per_block(writer, 1);
  archive_write_open_memory(writer, out.data(), out.size(), &used);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_write_header(writer, entry);
  archive_write_data(writer, bytes.data(), bytes.size());
  archive_write_close(writer);
  archive_entry_free(entry);
  archive_write_free(writer);
  out.resize(used);
  return out;
}

class Unpacking : public testing::Test {
 protected:
  Unpacking() { ::setenv("TMPDIR", temporary_.path().c_str(), 1); }
  ~Unpacking() override { ::unsetenv("TMPDIR"); }
  Dataset read(const std::string& bytes) {
    scratch_.put("a.tgz", bytes);
    return read_dataset(scratch_ / "a.tgz", "Data");
  }
  ScratchFolder scratch_, temporary_;
  std::string tar_ =
      tar_member("cat/1.jpg", std::string(5000, 'x')) + tar_member("dog/2.jpg", "y") + tar_end();
};

class UnpackTest : public Unpacking, public testing::WithParamInterface<int> {};

TEST_P(UnpackTest, MembersAreReadAndNoNamedFileRemains) {
  const Dataset set = read(compressed(tar_, GetParam()));
  std::string bytes;
  read_image_bytes(set, 0, bytes);
  EXPECT_EQ(bytes, std::string(5000, 'x'));
  EXPECT_TRUE(fs::is_empty(temporary_.path()));
  ASSERT_EQ(set.notes.size(), 1U);
  EXPECT_NE(set.notes[0].find(temporary_.path().string()), std::string::npos) << set.notes[0];
}

TEST_P(UnpackTest, TruncatedAndDamagedDataAreRefused) {
  const std::string good = compressed(tar_, GetParam());
  for (const std::size_t size : {4UL, good.size() / 2, good.size() - 1}) {
    const Error error = error_of([&] { read(good.substr(0, size)); });
    EXPECT_NE(error.message().find("cannot be used"), std::string::npos) << size << error.message();
  }
  EXPECT_TRUE(fs::is_empty(temporary_.path()));
}

INSTANTIATE_TEST_SUITE_P(Filters, UnpackTest,
                         testing::Values(ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_BZIP2,
                                         ARCHIVE_FILTER_ZSTD));

TEST_F(Unpacking, AWrongGzipChecksumIsDetected) {
  std::string bad = compressed(tar_, ARCHIVE_FILTER_GZIP);
  bad[bad.size() - 8] = static_cast<char>(bad[bad.size() - 8] ^ 1);
  EXPECT_NE(error_of([&] { read(bad); }).message().find("damaged"), std::string::npos);
}

TEST_F(Unpacking, AStreamIsReadLikeTheFileThatItWas) {
  for (const std::string& bytes : {tar_, compressed(tar_, ARCHIVE_FILTER_GZIP)}) {
    Spool spool;
    spool.append(bytes.substr(0, bytes.size() / 2));
    spool.append(bytes.substr(bytes.size() / 2));
    const OpenFile stream = spool.take();
    EXPECT_EQ(stream.size(), bytes.size());
    const Dataset set =
        read_labeled({.root = scratch_ / "pipe", .name = "Data", .contents = stream.path()});
    EXPECT_EQ(set.root, scratch_ / "pipe");
    EXPECT_EQ(set.classes, (std::vector<std::string>{"cat", "dog"}));
    Dataset other = dataset_of(to_bytes(set));  // of another rank
    other.contents = stream.path();
    open_archives(other);
    std::string image;
    read_image_bytes(set, 1, image);
    EXPECT_EQ(image, "y");
    read_image_bytes(other, 1, image);
    EXPECT_EQ(image, "y");
  }
  EXPECT_TRUE(fs::is_empty(temporary_.path()));
  EXPECT_FALSE(fs::exists(scratch_ / "index"));
}

TEST_F(Unpacking, AFullDiskIsToldWithWhatItHolds) {
  Spool spool;
  spool.append(std::string(3 << 20, 'x'));
  test::failure = ENOSPC;
  test::calls_before_failure = 0;
  std::string text;
  try {
    spool.append("y");
  } catch (const SpoolFault& fault) {
    text = fault.what();
  }
  test::failure = 0;
  test::calls_before_failure = -1;
  EXPECT_EQ(text, "'" + temporary_.path().string() +
                      "' cannot hold it beyond the first 3 MB: No space left on device");
}

// 2 GiB of zeros.
TEST_F(Unpacking, BombsAreRefused) {
  const std::string bomb = compressed(std::string(1 << 30, '\0'), ARCHIVE_FILTER_ZSTD);
  EXPECT_NE(error_of([&] { read(bomb + bomb); }).message().find("times its size"),
            std::string::npos);
}

}  // namespace
}  // namespace kiln
