#include "base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/system.h"
#include "base/system_calls.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() { fs::create_directories(folder_); }
  ~Files() override {
    std::error_code failure;
    fs::permissions(folder_, fs::perms::owner_all, failure);
    fs::remove_all(folder_, failure);
  }

  int count() const {
    int files = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_)) ++files;
    return files;
  }

  // The message of the kFailedToWriteOutputs error that `action` must throw.
  template <typename Action>
  static std::string write_fault(Action&& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFailedToWriteOutputs);
      return error.message();
    }
    return "no fault";
  }

  fs::path folder_ = fs::path(testing::TempDir()) /
                     (std::string("kiln-files-") + std::to_string(::getpid()) + "-" +
                      testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(Files, APathThatDoesNotExistSuggestsOneThatDoes) {
  fs::create_directories(folder_ / "small/train/ship");
  const auto meant = [&](const char* typed) {
    const std::string text = did_you_mean_path(folder_ / typed);
    const std::size_t begin = text.find(folder_.string());
    return begin == text.npos ? text : text.substr(begin + folder_.string().size());
  };
  EXPECT_EQ(meant("small/trian"), "/small/train'?");
  EXPECT_EQ(meant("small/TRAIN/Ship/"), "/small/train/ship'?");
  EXPECT_EQ(meant("smal/train"), "/small/train'?");
  EXPECT_EQ(meant("small/val"), "");
  fs::create_symlink("nowhere", folder_ / "lost");
  EXPECT_EQ(meant("lost"), "");
}

TEST_F(Files, NothingUnderTheFinalNameBeforeCommit) {
  const fs::path path = folder_ / "model";
  DurableFile file(path);
  file.write("one ");
  file.write("two");
  EXPECT_FALSE(fs::exists(path));
  file.finish();
  EXPECT_FALSE(fs::exists(path));
  file.commit();
  EXPECT_EQ(read_file(path), "one two");
  EXPECT_EQ(count(), 1);
}

TEST_F(Files, AnOldFileStaysUntilCommit) {
  const fs::path path = folder_ / "model";
  write_file_durably(path, "old");
  {
    DurableFile file(path);
    file.write("new");
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(count(), 1) << "what was not committed is gone";
  write_file_durably(path, "new");
  EXPECT_EQ(read_file(path), "new");
}

TEST_F(Files, TheLastOfTwoWritersWins) {
  const fs::path path = folder_ / "model";
  DurableFile first(path), second(path);
  first.write("of the first");
  second.write("second");
  first.commit();
  EXPECT_EQ(read_file(path), "of the first");
  second.commit();
  EXPECT_EQ(read_file(path), "second");
  EXPECT_EQ(count(), 1);
}

TEST_F(Files, LongNamesWork) {
  const fs::path path = folder_ / std::string(255, 'n');
  write_file_durably(path, "x");
  EXPECT_EQ(read_file(path), "x");
}

TEST_F(Files, MovedFilesCommitOnce) {
  const fs::path path = folder_ / "model";
  DurableFile first(path);
  first.write("x");
  DurableFile second(std::move(first));
  second.commit();
  EXPECT_EQ(read_file(path), "x");
}

TEST_F(Files, WrittenBytesAreVerified) {
  const fs::path path = folder_ / "model";
  DurableFile file(path);
  file.write("good");
  fs::path temporary;
  for (const auto& entry : fs::directory_iterator(folder_)) temporary = entry.path();
  ASSERT_TRUE(is_temporary_name(temporary.filename().string()));
  std::ofstream(temporary, std::ios::in) << "baad";
  const std::string text = write_fault([&] { file.commit(); });
  EXPECT_NE(text.find(path.string()), std::string::npos) << text;
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(Files, OneChangedByteOfManyPiecesShows) {
  const auto written = [this] {
    DurableFile file(folder_ / "model");
    for (std::size_t size = 1; size < 2000; ++size) file.write(std::string(size, 'x'));
    return file;
  };
  written().finish();
  DurableFile file = written();
  std::ofstream(file.temporary_path(), std::ios::in).seekp(1'500'007) << 'y';
  EXPECT_NE(write_fault([&] { file.finish(); }).find("model"), std::string::npos);
}

TEST_F(Files, APipeIsRefusedAndStays) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(write_fault([&] { write_file_durably(pipe, "bytes"); }).find("is a device, pipe"),
            std::string::npos);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(count(), 1);
}

TEST_F(Files, ALinkIsReplacedAndItsTargetStays) {
  fs::create_directory(folder_ / "there");
  std::ofstream(folder_ / "there/target") << "old";
  for (const char* name : {"link", "grown"}) fs::create_symlink("there/target", folder_ / name);
  write_file_durably(folder_ / "link", "new");
  AppendedFile(folder_ / "grown").append("new");
  for (const char* name : {"link", "grown"}) {
    EXPECT_FALSE(fs::is_symlink(folder_ / name));
    EXPECT_EQ(read_file(folder_ / name), "new");
  }
  EXPECT_EQ(read_file(folder_ / "there/target"), "old");
}

TEST_F(Files, HaveTheModeOfTheUmask) {
  const mode_t before = ::umask(007);
  write_file_durably(folder_ / "model", "x");
  ::umask(before);
  EXPECT_EQ(fs::status(folder_ / "model").permissions(), static_cast<fs::perms>(0660));
}

TEST_F(Files, MissingFoldersAreMadeAndSynced) {
  test::synced_folders.clear();
  make_folders(folder_ / "a/b/c/");
  EXPECT_TRUE(fs::is_directory(folder_ / "a/b/c"));
  const fs::path real = fs::canonical(folder_);
  EXPECT_EQ(test::synced_folders, (std::vector{real, real / "a", real / "a/b"}));
}

TEST_F(Files, AFolderThatCannotBeSyncedIsAFault) {
  test::folder_sync_error = EIO;
  const std::string text = write_fault([&] { write_file_durably(folder_ / "model", "x"); });
  EXPECT_NE(text.find(std::strerror(EIO)), std::string::npos) << text;
  test::folder_sync_error = EINVAL;  // as network file systems say
  EXPECT_NO_THROW(sync_folder(folder_));
  test::folder_sync_error = 0;
}

TEST_F(Files, ALongPathIsNamedByItsBeginning) {
  fs::path path = folder_ / "long";
  for (int i = 0; i < 1000; ++i) path /= "name";
  for (const std::string& text : {write_fault([&] { make_folders(path); }),
                                  write_fault([&] { write_file_durably(path, "x"); })}) {
    EXPECT_NE(text.find((folder_ / "long/name").string()), std::string::npos) << text;
    EXPECT_NE(text.find(std::strerror(ENAMETOOLONG)), std::string::npos) << text;
    EXPECT_LT(text.size(), 600U);
  }
  EXPECT_FALSE(fs::exists(folder_ / "long"));
}

TEST_F(Files, LeftoversAreRemovedAndNothingElse) {
  std::ofstream(folder_ / ".kiln-tmp-model-123") << "half";
  const std::vector<std::string> others{"model", ".hidden", ".kiln-tmp-model", ".kiln-tmp-model-a1",
                                        ".kiln-tmp-12"};
  for (const std::string& name : others) std::ofstream(folder_ / name) << "other";
  fs::create_directory(folder_ / ".kiln-tmp-folder-1");
  fs::create_symlink("model", folder_ / ".kiln-tmp-link-1");
  remove_leftovers(folder_);
  EXPECT_FALSE(fs::exists(folder_ / ".kiln-tmp-model-123"));
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder_ / name)) << name;
  EXPECT_EQ(count(), static_cast<int>(others.size()) + 2);
}

TEST_F(Files, LeftoversOfOneFileAreItsOwn) {
  const std::vector<std::string> others{".kiln-tmp-model-b-1", ".kiln-tmp-mode-1", "model",
                                        ".kiln-tmp-model-1a"};
  for (const std::string& name : others) std::ofstream(folder_ / name) << "other";
  std::ofstream(folder_ / ".kiln-tmp-model-123") << "half";
  remove_leftovers_of(folder_ / "model");
  EXPECT_EQ(count(), static_cast<int>(others.size()));
  EXPECT_FALSE(fs::exists(folder_ / ".kiln-tmp-model-123"));
}

TEST_F(Files, MissingFolderIsNamed) {
  const fs::path path = folder_ / "none" / "model";
  const std::string text = write_fault([&] { write_file_durably(path, "x"); });
  EXPECT_NE(text.find("'" + path.string() + "' cannot be written"), std::string::npos) << text;
  EXPECT_NE(text.find(std::strerror(ENOENT)), std::string::npos) << text;
}

TEST_F(Files, AFolderInThePlaceOfAFileIsNamed) {
  const std::string text = write_fault([&] { require_writable(folder_); });
  EXPECT_NE(text.find("Give the name of a file"), std::string::npos) << text;
  EXPECT_EQ(count(), 0);
}

TEST_F(Files, WhetherOneCanBeWrittenIsSeenWithoutATrace) {
  std::ofstream(folder_ / "there") << "old";
  for (const char* name : {"there", "new"}) EXPECT_NO_THROW(require_writable(folder_ / name));
  EXPECT_EQ(read_file(folder_ / "there"), "old");
  EXPECT_EQ(count(), 1);
  const std::string text = write_fault([&] { require_writable(folder_ / "none" / "file"); });
  EXPECT_NE(text.find("Create the folder"), std::string::npos) << text;
}

// /dev/stdout is such a link: root would replace it.
TEST_F(Files, ALinkToADescriptorIsNotReplaced) {
  std::ofstream(folder_ / "open") << "x";
  const int file = ::open((folder_ / "open").c_str(), O_RDONLY | O_CLOEXEC);
  fs::create_symlink("/proc/self/fd/" + std::to_string(file), folder_ / "link");
  const std::string text = write_fault([&] { write_file_durably(folder_ / "link", "y"); });
  ::close(file);
  EXPECT_NE(text.find("Choose a file"), std::string::npos) << text;
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
}

TEST_F(Files, AReadOnlyFolderIsNamed) {
  const test::BoundByPermissions bound;
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  const std::string text = write_fault([&] { write_file_durably(folder_ / "model", "x"); });
  EXPECT_NE(text.find(std::strerror(EACCES)), std::string::npos) << text;
  EXPECT_NE(text.find("permissions"), std::string::npos) << text;
}

TEST_F(Files, AFullDiskIsNamed) {
  if (::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "a small tmpfs cannot be mounted here: " << std::strerror(errno);
  }
  const std::string text =
      write_fault([&] { write_file_durably(folder_ / "model", std::string(1 << 20, 'x')); });
  const int left = count();
  ::umount(folder_.c_str());
  EXPECT_NE(text.find(std::strerror(ENOSPC)), std::string::npos) << text;
  EXPECT_NE(text.find("Free some space"), std::string::npos) << text;
  EXPECT_EQ(left, 0);
}

TEST_F(Files, ReadErrorsNamePathAndReason) {
  EXPECT_THROW(read_file(folder_), std::system_error);
  write_file_durably(folder_ / "big", "0123456789");
  EXPECT_EQ(read_file(folder_ / "big", 10), "0123456789");
  try {
    read_file(folder_ / "big", 9);
    FAIL() << "the limit is 9 bytes";
  } catch (const std::length_error& failure) {
    EXPECT_NE(std::string(failure.what()).find((folder_ / "big").string()), std::string::npos);
  }
  try {
    read_file(folder_ / "none");
    FAIL() << "there is no such file";
  } catch (const std::system_error& failure) {
    EXPECT_EQ(failure.code().value(), ENOENT);
    EXPECT_NE(std::string(failure.what()).find((folder_ / "none").string()), std::string::npos);
  }
}

TEST_F(Files, WhatStandsInThePlaceOfAFileIsNamed) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  fs::create_directory(folder_ / "folder");
  const auto reason = [&](const char* name) -> std::string {
    try {
      read_file(folder_ / name);
    } catch (const std::system_error& failure) {
      return why_unreadable(failure);
    }
    return "it was read";
  };
  EXPECT_NE(reason("pipe").find("a pipe or a device"), std::string::npos);
  EXPECT_NE(reason("folder").find("a folder"), std::string::npos);
}

TEST(Checksum, IsFnv1aAndContinues) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8ULL);
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
}

TEST(ContentHash, DiffersWithEveryBitAndTheLength) {
  const std::string bytes(37, 'x');
  EXPECT_EQ(content_hash(bytes), content_hash(std::string(37, 'x')));
  EXPECT_NE(content_hash(bytes), content_hash(std::string(38, 'x')));
  EXPECT_NE(content_hash(std::string(8, '\0')), content_hash(std::string(16, '\0')));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = bytes;
      other[i] = static_cast<char>(other[i] ^ 1 << bit);
      EXPECT_NE(content_hash(other), content_hash(bytes)) << i << ' ' << bit;
    }
}

TEST(ContentHash, DoesNotDependOnThePieces) {
  std::string bytes(37, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + 1);
  for (std::size_t first = 0; first <= bytes.size(); ++first)
    for (std::size_t second = first; second <= bytes.size(); ++second) {
      ContentHash hash(bytes.size());
      hash.add(std::string_view(bytes).substr(0, first));
      hash.add({});
      hash.add(std::string_view(bytes).substr(first, second - first));
      hash.add(std::string_view(bytes).substr(second));
      EXPECT_EQ(hash.value(), content_hash(bytes)) << first << ' ' << second;
    }
}

// It is stored in checkpoints.
TEST(ContentHash, StaysTheSame) {
  EXPECT_EQ(content_hash("checkpoint"), 0xf16bc3d7dce0a029ULL);
  EXPECT_EQ(content_hash("a checkpoint of more than thirty-two bytes"), 0xcb37f3ad5c2f1181ULL);
}

TEST(TemporaryFolder, AnEmptyNameIsNone) {
  ASSERT_EQ(::setenv("TMPDIR", "", 1), 0);
  forget_empty_temporary_folders();
  EXPECT_EQ(fs::temp_directory_path(), "/tmp");
}

TEST(SystemWords, NameTheUserWhoLacksPermissions) {
  EXPECT_EQ(system_words(ENOSPC), "No space left on device");
  EXPECT_EQ(system_words(EACCES), "Permission denied for user " + std::to_string(::geteuid()));
}

}  // namespace
}  // namespace kiln
