// Images in tars and zips: the contents of good ones, and the errors of bad ones.
#include "data/dataset/listing.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/mutate.h"
#include "base/text.h"
#include "data/archive/archive.h"
#include "data/dataset/image_bytes.h"
#include "data/image/image.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::string tar_of(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string bytes;
  for (const auto& [name, content] : members) bytes += tar_member(name, content);
  return bytes + tar_end();
}

std::string bytes_of_image(const Dataset& set, std::size_t i) {
  std::string bytes;
  read_image_bytes(set, i, bytes);
  return bytes;
}

// A header block with a correct checksum.
std::string with_checksum(std::string block) {
  unsigned sum = 8 * ' ';
  for (std::size_t i = 0; i < 512; ++i)
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(block[i]);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  block.replace(148, 7, std::string(text, 7));
  return block;
}

class ArchiveTest : public testing::Test {
 protected:
  Dataset read(const std::string& bytes, const std::string& name = "a.tar") {
    scratch_.put(name, bytes);
    return read_dataset(scratch_ / name, "Data");
  }
  void expect_fault(const std::string& bytes, const std::string& expected) {
    const Error error = error_of([&] { read(bytes); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
    EXPECT_NE(error.message().find(expected), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("a.tar'"), std::string::npos) << error.message();
  }
  ScratchFolder scratch_;
};

TEST_F(ArchiveTest, ArchivesWithClassFoldersReadLikeFolders) {
  const Dataset set = read(tar_of({{"./dog/2.jpg", "d2"},
                                   {"./cat/b.JPG", "cb"},
                                   {"./cat/a.png", "ca"},
                                   {"./cat/readme.txt", "no"},
                                   {"./cat/._a.png", "no"}}));
  EXPECT_EQ(set.kind, Dataset::Kind::kArchives);
  EXPECT_EQ(set.classes, (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(set.samples.size(), 3U);
  EXPECT_EQ(set.samples.file_name(0), "cat/a.png");
  EXPECT_EQ(bytes_of_image(set, 0), "ca");
  EXPECT_EQ(bytes_of_image(set, 1), "cb");
  EXPECT_EQ(bytes_of_image(set, 2), "d2");
  EXPECT_EQ(set.samples.label(2), 1);
}

TEST_F(ArchiveTest, AFolderSharedByAllImagesIsNoClass) {
  EXPECT_EQ(read(tar_of({{"top/set/cat/1.jpg", ""}, {"top/set/dog/1.jpg", ""}})).classes,
            (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(read(tar_of({{"top/cat/1.jpg", ""}, {"top/cat/2.jpg", ""}})).classes,
            (std::vector<std::string>{"cat"}));
  EXPECT_FALSE(read(tar_of({{"1.jpg", ""}, {"2.jpg", ""}})).labeled());
}

TEST_F(ArchiveTest, AFolderInTheOnlyClassFolderIsNoClass) {
  scratch_.put("unpacked/cat/1.jpg", "a");
  scratch_.put("unpacked/cat/dog/2.jpg", "b");
  const Dataset folders = read_dataset(scratch_ / "unpacked", "Data");
  const Dataset set = read(tar_of({{"cat/1.jpg", "a"}, {"cat/dog/2.jpg", "b"}}));
  EXPECT_EQ(set.classes, std::vector<std::string>{"cat"});
  EXPECT_EQ(set.classes, folders.classes);
  ASSERT_EQ(set.samples.size(), folders.samples.size());
  EXPECT_EQ(set.samples.file_name(0), folders.samples.file_name(0));
  EXPECT_EQ(read(tar_of({{"top/0.jpg", ""}, {"top/cat/1.jpg", ""}, {"top/dog/1.jpg", ""}})).classes,
            (std::vector<std::string>{"cat", "dog"}))
      << "one stray image makes no class of the folder of all";
}

TEST_F(ArchiveTest, ShardsOfSeveralSetsAreRefused) {
  using Names = std::vector<std::string>;
  const auto fault = [&](const Names& names) -> std::string {
    const ScratchFolder folder;
    for (const std::string& name : names)
      folder.put(name, tar_of({{name + ".jpg", name}, {name + ".cls", "cat"}}));
    try {
      read_dataset(folder.path(), "Data");
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
      for (const std::string& name : names)
        EXPECT_NE(error.message().find("'" + name + "'"), std::string::npos) << error.message();
      return error.message();
    }
  };
  for (const Names& names :
       {Names{"imagenet1k-train-0000.tar", "imagenet1k-validation-00.tar"},
        Names{"train-000000.tar", "val-000000.tar"}, Names{"test.tar", "train.tar"},
        Names{"testset_1.tar.gz", "Training-Set.2.tar"}})
    EXPECT_NE(fault(names).find("several datasets"), std::string::npos) << names.front();
  for (const Names& names : {Names{"train-0.tar", "train-1.tar"}, Names{"train-0.tar", "more.tar"},
                             Names{"train-a.tar", "test-b.tar"}})
    EXPECT_EQ(fault(names), "") << names.front();
}

TEST_F(ArchiveTest, ImagesOutsideOfClassFoldersAreCountedInNotes) {
  const Dataset set = read(tar_of({{"cat/1.jpg", ""}, {"dog/x/2.jpg", ""}, {"3.jpg", ""}}));
  EXPECT_EQ(set.samples.size(), 1U);
  EXPECT_EQ(set.notes.size(), 2U);
}

TEST_F(ArchiveTest, ByteOrderMarksAndCrlfInClassListsAreIgnored) {
  scratch_.put("s-0.TAR", tar_of({{"0.jpg", "a"}, {"0.cls", "0"}}));
  scratch_.put("classes.txt",
               "\xef\xbb\xbf"
               "cat\r\ndog\r\n");
  EXPECT_EQ(read_labeled_dataset(scratch_.path(), "Data").classes,
            (std::vector<std::string>{"cat", "dog"}));
}

TEST_F(ArchiveTest, ShardsWithClassFilesKeepTheirOrder) {
  scratch_.put("s-0.tar",
               tar_of({{"0.jpg", "a"}, {"0.cls", "1"}, {"1.jpg", "b"}, {"1.cls", "0\n"}}));
  scratch_.put("s-1.tar", tar_of({{"0.png", "c"}, {"0.cls", "2"}}));
  scratch_.put("classes.txt", "cat\ndog\nelk\nfox\n");
  const Dataset set = read_labeled_dataset(scratch_.path(), "Data");
  EXPECT_EQ(set.classes, (std::vector<std::string>{"cat", "dog", "elk", "fox"}));
  ASSERT_EQ(set.samples.size(), 3U);
  EXPECT_EQ(set.samples.file_name(2), "s-1.tar/0.png");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bytes_of_image(set, i), std::string(1, static_cast<char>('a' + i)));
    EXPECT_EQ(set.samples.label(i), std::vector({1, 0, 2}).at(i));
  }
}

TEST_F(ArchiveTest, ClassFilesMayContainNames) {
  EXPECT_EQ(
      read(tar_of({{"a.jpg", ""}, {"a.cls", "owl"}, {"b.jpg", ""}, {"b.cls", "ant"}})).classes,
      (std::vector<std::string>{"ant", "owl"}));
}

TEST_F(ArchiveTest, AClassTwiceInTheListIsRefused) {
  scratch_.put("classes.txt", "cat\ndog\ncat\n");
  scratch_.put("s.tar", tar_of({{"0.jpg", ""}, {"0.cls", "1"}}));
  EXPECT_NE(
      error_of([&] { read_dataset(scratch_.path(), "Data"); }).message().find("lines 1 and 3"),
      std::string::npos);
}

TEST_F(ArchiveTest, AListOfClassesIsNotJson) {
  scratch_.put("s.tar", tar_of({{"0.jpg", ""}, {"0.cls", "1"}}));
  for (const char* text : {"{\n \"0\": \"cat\",\n \"1\": \"dog\"\n}\n", "[\"cat\",\n\"dog\"]\n"}) {
    scratch_.put("classes.txt", text);
    EXPECT_NE(error_of([&] { read_dataset(scratch_.path(), "Data"); }).message().find("is JSON"),
              std::string::npos);
  }
}

TEST_F(ArchiveTest, AListInAnArchiveMayHaveTheLabels) {
  const auto note_of = [&](const std::string& list) {
    return joined(read(tar_of({{"a/1.jpg", ""}, {"b/2.jpg", ""}, {list, ""}})).notes, "; ");
  };
  EXPECT_NE(note_of("labels.csv").find("unpack the archive"), std::string::npos);
  EXPECT_EQ(note_of("a/1.json").find("unpack"), std::string::npos);
}

TEST_F(ArchiveTest, AListOfClassesIsText) {
  scratch_.put("s.tar", tar_of({{"0.jpg", ""}, {"0.cls", "0"}}));
  scratch_.put("classes.txt", "cat\rdog\r");  // line ends of old Macs
  EXPECT_EQ(read_labeled_dataset(scratch_.path(), "Data").classes,
            (std::vector<std::string>{"cat", "dog"}));
  scratch_.put("classes.txt", std::string("c\0\n\0d\0\n\0", 8));  // UTF-16 without a mark
  EXPECT_NE(error_of([&] { read_dataset(scratch_.path(), "Data"); }).message().find("UTF-8"),
            std::string::npos);
}

TEST_F(ArchiveTest, ANameOfSeveralClassesIsOfNoImage) {
  scratch_.put("classes.txt", "Others\ncat\nOthers\n");
  scratch_.put("s.tar", tar_of({{"0.jpg", ""}, {"0.cls", "1"}}));
  EXPECT_EQ(read_dataset(scratch_.path(), "Data", {.first_label = 0}).samples.label(0), 1);
  scratch_.put("s.tar", tar_of({{"0.jpg", ""}, {"0.cls", "2"}}));
  const Error error = error_of([&] { read_dataset(scratch_.path(), "Data", {.first_label = 0}); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
  EXPECT_NE(error.message().find("'Others'"), std::string::npos) << error.message();
}

TEST_F(ArchiveTest, AClassFileOfRawBytesIsRefused) {
  for (const std::string& bytes : {std::string("\x03\0\0\0", 4), std::string("a\x01")})
    expect_fault(tar_of({{"0.jpg", ""}, {"0.cls", bytes}}), "or has control characters");
  expect_fault(tar_of({{"0.jpg", ""}, {"0.cls", "caf\xe9"}}),
               "the label file '0.cls' is not UTF-8, or has control characters: 'caf\\xe9'");
}

TEST_F(ArchiveTest, AClassFileBeyondTheListIsRefused) {
  scratch_.put("classes.txt", "cat\n");
  scratch_.put("s.tar", tar_of({{"0.jpg", ""}, {"0.cls", "2"}}));
  EXPECT_NE(error_of([&] { read_dataset(scratch_.path(), "Data"); }).message().find("label 2"),
            std::string::npos);
}

TEST_F(ArchiveTest, EmptyAndTruncatedArchivesAreRefused) {
  const std::string good = tar_of({{"cat/1.jpg", std::string(600, 'x')}, {"cat/2.jpg", "y"}});
  expect_fault("", "is empty");
  expect_fault(std::string(10240, '\0'), "it contains no images");
  for (const std::size_t size : {513UL, 700UL, 1536UL, 1600UL, 2048UL, 2560UL})
    expect_fault(good.substr(0, size), "truncated");
  expect_fault(good.substr(0, 100), "neither a zip, a tar");
  expect_fault(good + good, "follows its end marker");
}

TEST_F(ArchiveTest, AStreamMayHaveSeveralTars) {
  const auto read_stream = [&](const std::string& bytes) {
    scratch_.put("bytes", bytes);
    return read_labeled({.root = "pipe", .name = "Data", .contents = scratch_ / "bytes"});
  };
  const std::string one = tar_of({{"cat/1.jpg", "a"}, {"dog/1.jpg", "b"}});
  const std::string other = tar_of({{"owl/1.jpg", "c"}});
  for (const char* gap : {"", "padded"}) {
    const Dataset set =
        read_stream(one + std::string(*gap == '\0' ? 0 : 10240, '\0') + other + tar_end());
    EXPECT_EQ(set.root, "pipe");
    EXPECT_EQ(set.classes, (std::vector<std::string>{"cat", "dog", "owl"}));
    EXPECT_EQ(bytes_of_image(set, 2), "c");
  }
  const auto fault_of = [&](const std::string& bytes) {
    return error_of([&] { read_stream(bytes); }).message();
  };
  EXPECT_NE(fault_of(one + other.substr(0, 700)).find("'pipe' cannot be used: it is truncated"),
            std::string::npos);
  EXPECT_NE(fault_of(one + tar_of({{"dog/1.jpg", "x"}})).find("twice, with two contents"),
            std::string::npos);
}

TEST_F(ArchiveTest, PathsThatLeadOutAreRefused) {
  expect_fault(tar_of({{"/etc/cat/1.jpg", ""}}), "is absolute");
  expect_fault(tar_of({{"cat/../../1.jpg", ""}}), "contains '..'");
  expect_fault(tar_of({{"..", ""}}), "contains '..'");
}

TEST_F(ArchiveTest, RepeatedNamesAreRefused) {
  expect_fault(tar_of({{"cat/1.jpg", "a"}, {"dog/1.jpg", "b"}, {"cat/1.jpg", "c"}}),
               "'cat/1.jpg' appears in it twice, with two contents");
  const Dataset set = read(tar_of({{"cat/1.jpg", "a"}, {"dog/1.jpg", "b"}, {"cat/1.jpg", "a"}}));
  EXPECT_EQ(set.samples.size(), 2U);
  ASSERT_EQ(set.notes.size(), 1U);
  EXPECT_NE(set.notes[0].find("'cat/1.jpg'"), std::string::npos) << set.notes[0];
}

TEST_F(ArchiveTest, LinksAreFollowedInsideTheArchive) {
  const auto link = [](const std::string& name, const std::string& target, char type) {
    std::string header = tar_member(name, "");
    header[156] = type;
    target.copy(header.data() + 157, 100);
    return with_checksum(header);
  };
  const Dataset set =
      read(link("x/dog/1.jpg", "../cat/1.jpg", '2') + link("x/dog/2.jpg", "x/cat/2.jpg", '1') +
           link("x/elk", "cat", '2') + link("x/dog/3.jpg", "../../../1.jpg", '2') +
           link("x/dog/4.jpg", "4.jpg", '2') + link("x/dog/5.jpg", "/1.jpg", '2') +
           link("x/dog/6.jpg", "none.jpg", '2') + link("x/cat/up", "..", '2') +
           tar_of({{"x/cat/1.jpg", "a"}, {"x/cat/2.jpg", "b"}}));
  EXPECT_EQ(set.classes, (std::vector<std::string>{"cat", "dog", "elk"}));
  ASSERT_EQ(set.samples.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(set.samples.label(i), static_cast<int>(i / 2));
    EXPECT_EQ(bytes_of_image(set, static_cast<int>(i)), i % 2 == 0 ? "a" : "b");
  }
  std::string notes;
  for (const std::string& note : set.notes) notes += note + "\n";
  for (const char* name : {"x/dog/3.jpg", "x/dog/4.jpg", "x/dog/5.jpg", "x/dog/6.jpg", "x/cat/up"})
    EXPECT_NE(notes.find(name), std::string::npos) << notes;
}

TEST_F(ArchiveTest, BrokenLinksAndFoldersAreSkippedAndSparseFilesRefused) {
  std::string link = tar_member("cat/9.jpg", "");
  link[156] = '2';
  std::string folder = tar_member("cat/", "");
  folder[156] = '5';
  EXPECT_EQ(read(with_checksum(folder) + with_checksum(link) + tar_of({{"cat/1.jpg", ""}}))
                .samples.size(),
            1U);
  std::string sparse = tar_member("cat/1.jpg", "");
  sparse[156] = 'S';
  expect_fault(with_checksum(sparse) + tar_end(), "sparse");
}

TEST_F(ArchiveTest, DamagedHeadersAreRefused) {
  std::string bad = tar_of({{"cat/1.jpg", ""}, {"cat/2.jpg", ""}});
  bad[512 + 3] = 'z';
  expect_fault(bad, "at byte 512 is damaged");
}

TEST_F(ArchiveTest, LongNamesPaxSizesAndBase256AreRead) {
  const std::string long_name = "cat/" + std::string(200, 'n') + ".jpg";
  std::string gnu = tar_member("././@LongLink", long_name + '\0');
  gnu[156] = 'L';
  gnu.replace(0, 512, with_checksum(gnu.substr(0, 512)));
  const std::string record = "path=" + long_name + ".png\n";
  std::string pax = tar_member("pax", std::to_string(record.size() + 4) + " " + record);
  pax[156] = 'x';
  pax.replace(0, 512, with_checksum(pax.substr(0, 512)));
  std::string binary = tar_member("cat/b.jpg", "");
  binary.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\x03", 12));
  binary = with_checksum(binary) + "abc" + std::string(509, '\0');
  const Dataset set =
      read(gnu + tar_member("short", "1") + pax + tar_member("short", "2") + binary + tar_end());
  ASSERT_EQ(set.samples.size(), 3U);
  EXPECT_EQ(bytes_of_image(set, 0), "abc");
  EXPECT_EQ(set.samples.file_name(1), long_name);
  EXPECT_EQ(set.samples.file_name(2), long_name + ".png");
}

// A sparse file: the parts in between are never written.
TEST_F(ArchiveTest, MembersBeyond4GibAreRead) {
  constexpr std::uint64_t kSize = 5ULL << 30;
  std::string header = tar_member("cat/large.bin", "");
  header.replace(124, 12, std::string("\x80\0\0\0\0\0\0\x01\x40\0\0\0", 12));
  const std::string rest = tar_of({{"cat/1.jpg", "far"}});
  scratch_.put("a.tar", with_checksum(header));
  fs::resize_file(scratch_ / "a.tar", 512 + kSize);
  std::ofstream(scratch_ / "a.tar", std::ios::binary | std::ios::app) << rest;
  const Dataset set = read_dataset(scratch_ / "a.tar", "Data");
  ASSERT_EQ(set.samples.size(), 1U);
  EXPECT_GT(set.samples.member(0)->offset, kSize);
  EXPECT_EQ(bytes_of_image(set, 0), "far");
}

TEST_F(ArchiveTest, ATarOfAMillionEmptyEntriesTakesLittleMemory) {
  std::string bytes;
  for (int i = 0; i < 1'000'000; ++i) bytes += tar_member("cat/" + std::to_string(i) + ".jpg", "");
  const Dataset set = read(bytes + tar_end());
  EXPECT_EQ(set.samples.size(), 1'000'000U);
  EXPECT_LT(set.samples.memory_bytes(), 2 * std::size_t{120} * 1'000'000);  // not shrunk yet
  EXPECT_EQ(bytes_of_image(set, 999'999), "");
}

// Little-endian, as in a zip.
template <typename Number>
void append(std::string& bytes, Number value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Stored, empty, with a zip64 directory whose end records are APPNOTE.TXT's 4.3.14 to 4.3.16.
std::string zip_of_empty_entries(std::uint64_t count) {
  std::string bytes, directory;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string name = "cat/" + std::to_string(i) + ".jpg";
    const std::string fields = std::string("\x14\0\0\0\0\0\0\0\0\0", 10) + std::string(12, '\0') +
                               static_cast<char>(name.size()) + std::string(3, '\0');
    const auto offset = static_cast<std::uint32_t>(bytes.size());
    bytes += "PK\3\4" + fields + name;
    directory += std::string("PK\1\2\x14\0", 6) + fields + std::string(10, '\0');
    append(directory, offset);
    directory += name;
  }
  const std::uint64_t begin = bytes.size(), end64 = begin + directory.size();
  bytes += directory + "PK\6\6";
  append(bytes, std::uint64_t{44});
  bytes += std::string("\x2d\0\x2d\0", 4) + std::string(8, '\0');  // versions and disks
  for (const std::uint64_t field : {count, count, std::uint64_t{directory.size()}, begin})
    append(bytes, field);
  bytes += std::string("PK\6\7\0\0\0\0", 8);
  append(bytes, end64);
  append(bytes, std::uint32_t{1});
  return bytes + "PK\5\6" + std::string(4, '\0') + std::string(12, '\xff') + std::string(2, '\0');
}

TEST_F(ArchiveTest, AZipOfAMillionEmptyEntriesTakesLittleMemory) {
  const Dataset set = read(zip_of_empty_entries(1'000'000));
  EXPECT_EQ(set.samples.size(), 1'000'000U);
  EXPECT_LT(set.samples.memory_bytes(), 2 * std::size_t{120} * 1'000'000);  // not shrunk yet
  EXPECT_EQ(bytes_of_image(set, 999'999), "");
}

TEST_F(ArchiveTest, DeletingOrTruncatingAnOpenArchiveDoesNotCrash) {
  const std::string good = tar_of({{"cat/1.jpg", std::string(600, 'x')}});
  const Dataset set = read(good);
  fs::remove(scratch_ / "a.tar");
  EXPECT_EQ(bytes_of_image(set, 0).size(), 600U) << "it is still open";
  const Dataset cut = read(good);
  fs::resize_file(scratch_ / "a.tar", 900);
  try {
    bytes_of_image(cut, 0);
    ADD_FAILURE() << "no fault";
  } catch (const ImageFault& fault) {
    EXPECT_NE(std::string(fault.what()).find("truncated"), std::string::npos);
  }
}

TEST_F(ArchiveTest, MutatedTarsAreRefusedOrReadWithinBounds) {
  const std::string good = tar_of({{"cat/1.jpg", "x"}, {"dog/2.jpg", "y"}});
  const auto read_all = [&](const std::string& bytes) {
    const Dataset set = read(bytes);
    for (std::size_t i = 0; i < set.samples.size(); ++i) bytes_of_image(set, i);
  };
  EXPECT_GT(test::count_refused<Error>(good, read_all, test::num_mutations() / 10 + 1), 0U);
}

}  // namespace
}  // namespace kiln
