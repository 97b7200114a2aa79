// Datasets that strangers made to crash a reader, to take its memory, or to be told as a bug.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "data/archive/archive.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "data/make_image.h"
#include "data/scratch_folder.h"
#include "peak_memory.h"
#include "tools/pack/pack.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

std::string hostile_tar(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string bytes;
  for (const auto& [name, content] : members) bytes += tar_member(name, content);
  return bytes + tar_end();
}

class HostileDatasets : public testing::Test {
 protected:
  Dataset read(const std::string& name = ".") { return read_dataset(scratch_ / name, "Data"); }
  Error fault_of(const std::string& name = ".") {
    return error_of([&] { read(name); });
  }
  void expect_not_utf8(const std::string& name = ".") {
    const Error error = fault_of(name);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
    EXPECT_NE(error.message().find("caf\\xe9"), std::string::npos) << error.message();
  }
  ScratchFolder scratch_;
};

// ---- archives ----

std::string zip_end(std::uint32_t directory_size, std::uint32_t directory_offset,
                    std::uint16_t count = 1) {
  std::string end = "PK\5\6"s + std::string(4, '\0');
  const auto append = [&](const auto& value) {
    end.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  append(count);
  append(count);
  append(directory_size);
  append(directory_offset);
  return end + std::string(2, '\0');
}

TEST_F(HostileDatasets, AZipDirectoryLiesBeforeItsEndRecord) {
  const auto list = [](const std::string& zip) {
    list_zip(zip, [](std::string_view, const ArchiveMember&) {});
  };
  for (const std::string& zip : {zip_end(1U << 30, 0), zip_end(46, 0), zip_end(46, UINT32_MAX),
                                 std::string(60, 'x') + zip_end(46, 15)}) {
    EXPECT_THROW(list(zip), ArchiveFault);
    EXPECT_LT(test::peak_mib_of([&] {
                try {
                  list(zip);
                } catch (const ArchiveFault&) {
                }
              }),
              16U);
  }
}

// A zip of `entries` empty files "cat/N.jpg", whose end record says `count`.
std::string zip_of(std::size_t entries, std::size_t count) {
  std::string bytes, directory;
  for (std::size_t i = 0; i < entries; ++i) {
    const std::string name = "cat/" + std::to_string(i) + ".jpg";
    const auto offset = static_cast<std::uint32_t>(bytes.size());
    std::string entry = "PK\1\2" + std::string(42, '\0') + name;
    entry[28] = static_cast<char>(name.size());
    std::memcpy(entry.data() + 42, &offset, sizeof offset);
    directory += entry;
    std::string header = "PK\3\4" + std::string(26, '\0') + name;
    header[26] = static_cast<char>(name.size());
    bytes += header;
  }
  const auto begin = static_cast<std::uint32_t>(bytes.size());
  return bytes + directory +
         zip_end(static_cast<std::uint32_t>(directory.size()), begin,
                 static_cast<std::uint16_t>(count));
}

TEST_F(HostileDatasets, AZipHasTheEntriesThatItsEndRecordCounts) {
  const auto count = [](const std::string& zip) {
    std::size_t found = 0;
    list_zip(zip, [&](std::string_view, const ArchiveMember&) { ++found; });
    return found;
  };
  EXPECT_EQ(count(zip_of(6, 6)), 6U);
  EXPECT_EQ(count(zip_of(65'541, 5)), 65'541U);
  scratch_.put("counted.zip", zip_of(6, 4));
  EXPECT_NE(fault_of("counted.zip").message().find("6 entries, but its end record counts 4"),
            std::string::npos);
  scratch_.put("joined.zip", zip_of(6, 6) + zip_of(6, 6));
  EXPECT_NE(fault_of("joined.zip").message().find("zips that were joined"), std::string::npos);
}

TEST_F(HostileDatasets, NamesInArchivesThatAreNotUtf8AreToldEscaped) {
  scratch_.put("folders.tar", hostile_tar({{"caf\xe9/1.jpg", "1"}, {"bar/2.jpg", "2"}}));
  expect_not_utf8("folders.tar");
  scratch_.put("members.tar", hostile_tar({{"caf\xe9.jpg", "1"}, {"2.jpg", "2"}}));
  EXPECT_EQ(read("members.tar").samples.size(), 2U) << "names of images may be any bytes";
  scratch_.put("labels.tar", hostile_tar({{"1.jpg", "1"}, {"1.cls", "caf\xe9"}}));
  const Error error = error_of([&] { read("labels.tar"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
  EXPECT_NE(error.message().find("'1.cls'"), std::string::npos) << error.message();
  scratch_.put("good.tar", hostile_tar({{"caf\xc3\xa9/1.jpg", "1"}, {"bar/b\xe9.jpg", "2"}}));
  EXPECT_EQ(read("good.tar").classes.at(1), "caf\xc3\xa9");
}

TEST_F(HostileDatasets, ClassesThatAreNotUtf8AreToldEscaped) {
  scratch_.put("shards/a.tar", hostile_tar({{"1.jpg", "1"}, {"1.cls", "0"}}));
  scratch_.put("shards/classes.txt", "caf\xe9\n");
  expect_not_utf8("shards");
  scratch_.put("folders/caf\xe9/1.jpg");
  expect_not_utf8("folders");
}

TEST_F(HostileDatasets, MillionsOfEmptyClassesAreRefused) {
  scratch_.put("shards/a.tar", hostile_tar({{"1.jpg", "1"}, {"1.cls", "0"}}));
  scratch_.put("shards/classes.txt", std::string(10 << 20, '\n'));
  EXPECT_EQ(fault_of("shards").code(), ErrorCode::kInvalidDataset);
  EXPECT_LT(test::peak_mib_of([&] {
              try {
                read("shards");
              } catch (const Error&) {
              }
            }),
            64U);
}

TEST_F(HostileDatasets, ClassNamesThatALineCannotHoldAreNotPacked) {
  for (const std::string name : {"a\nb", "b\r",
                                 "\xef\xbb\xbf"
                                 "c"}) {
    ScratchFolder data, output;
    data.put(name + "/1.png", test::encode_png(test::plain(4, 4, 1, 2, 3)));
    Dataset set = read_labeled_dataset(data.path(), "Data");
    EXPECT_EQ(set.classes.at(0), name);
    const Error error = error_of([&] {
      ShardPlan plan;
      plan.name = "a";
      plan.order = {0};
      write_shards(set, plan, OutputFolder(output.path()));
    });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
    EXPECT_TRUE(fs::is_empty(output.path()));
  }
}

// ---- lists ----

TEST_F(HostileDatasets, SizesInAListThatNoImageHasAreIgnoredAndNamed) {
  scratch_.put("a.png", test::encode_png(test::plain(8, 8, 1, 2, 3)));
  scratch_.put("_schema.json", schema_text({"cat"}));
  const auto put = [&](const std::string& side) {
    scratch_.put("images.lst", R"({"image_info": {"file_name": "a.png", "width": )" + side +
                                   R"(, "height": )" + side + R"(}, "category": "cat"})" + "\n");
  };
  put("2147483647");
  const Dataset set = read();
  EXPECT_FALSE(set.samples[0].size);
  ASSERT_EQ(set.notes.size(), 1U);
  EXPECT_NE(set.notes[0].find("images.lst"), std::string::npos);
  EXPECT_NE(set.notes[0].find("line 1"), std::string::npos);
}

TEST_F(HostileDatasets, CocoTakesTheMemoryOfAnEntryAtATime) {
  std::string entries;
  for (int i = 0; i < 1'500'000; ++i) entries += "{},";
  const auto peak_of = [&](const std::string& text) {
    scratch_.put("labels.json", text);
    return test::peak_mib_of([&] {
      try {
        read();
      } catch (const Error&) {
      }
    });
  };
  EXPECT_LT(peak_of("{\"images\":[" + entries + "{}],\"annotations\":[],\"categories\":[]}"), 32U);
  EXPECT_LT(peak_of("{\"images\":[],\"annotations\":[],\"x\":{\"y\":[" + entries + "{}]}}"), 192U);
  EXPECT_LT(peak_of(""), 32U);
  fs::resize_file(scratch_ / "labels.json", 500 << 20);
  EXPECT_LT(test::peak_mib_of([&] {
              try {
                read();
              } catch (const Error&) {
              }
            }),
            32U);
}

}  // namespace
}  // namespace kiln
