// Links, odd names and what is left out: a folder and a tar of it read alike, and so do folders of
// shards.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "base/text.h"
#include "data/archive/archive.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// A file, or a link (type 2) or a hard link (1) to `content`, or a pipe (6).
struct Member {
  std::string name, content;
  char type = '0';
};
using Members = std::vector<Member>;

Member link(const std::string& name, const std::string& target) {
  return {name, target, '2'};
}

std::string tar_of_members(const Members& members) {
  std::string tar;
  for (const auto& [name, content, type] : members) {
    std::string member = tar_member(name, type == '0' ? content : "");
    if (type != '0') {
      member[156] = type;
      content.copy(member.data() + 157, 100);
      member.replace(148, 8, 8, ' ');
      unsigned sum = 0;
      for (const char c : member) sum += static_cast<unsigned char>(c);
      std::snprintf(member.data() + 148, 8, "%06o", sum);
    }
    tar += member;
  }
  return tar + tar_end();
}

// Contents with their classes, and the notes.
struct Found {
  std::multiset<std::string> images;
  std::string notes;
};

class Forms : public testing::Test {
 protected:
  Found read(const std::string& name) {
    const Dataset set = read_dataset(scratch_ / name, "Data");
    Found found{{}, joined(set.notes, "\n")};
    std::string bytes;
    for (std::size_t i = 0; i < set.samples.size(); ++i) {
      read_image_bytes(set, i, bytes);
      const int label = set.samples.label(i);
      found.images.insert(bytes + ":" +
                          (label < 0 ? "" : set.classes[static_cast<std::size_t>(label)]));
    }
    return found;
  }
  std::string fault(const std::string& name) {
    const Error error = error_of([&] { read(name); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
    return error.message();
  }
  static void expect_all(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), text.npos) << part << "\n" << text;
  }
  // `told` is in the notes of a folder of the members, and of a tar and shards.
  void expect(const Members& members, const std::multiset<std::string>& images,
              const std::vector<std::string>& told) {
    for (const auto& [name, content, type] : members) {
      const fs::path path = scratch_ / ("folder/" + name);
      fs::create_directories(path.parent_path());
      if (type == '0') scratch_.put("folder/" + name, content);
      if (type == '2') fs::create_symlink(content, path);
      if (type == '1') fs::create_hard_link(scratch_ / ("folder/" + content), path);
      if (type == '6') ::mkfifo(path.c_str(), 0600);
    }
    scratch_.put("a.tar", tar_of_members(members));
    scratch_.put("shards/a.tar", tar_of_members(members));
    for (const char* form : {"folder", "a.tar", "shards"}) {
      const Found found = read(form);
      EXPECT_EQ(found.images, images) << form;
      for (const std::string& part : told)
        EXPECT_NE(found.notes.find(part), std::string::npos) << form << "\n" << found.notes;
    }
  }
  ScratchFolder scratch_;
};

TEST_F(Forms, FoldersThatLinkToEachOtherAreReadOnce) {
  Members members;
  std::multiset<std::string> images;
  for (const std::string name : {"a", "b", "c"}) {
    members.push_back({name + "/0.png", name});
    images.insert(name + ":" + name);
    for (const std::string other : {"a", "b", "c"})
      if (other != name) members.push_back(link(name + "/see_" + other, "../" + other));
  }
  expect(members, images, {"in"});
}

TEST_F(Forms, ChainsOfLinksToFoldersEnd) {
  Members chain = {{"x/d26/0.png", "0"}};
  for (int k = 0; k < 26; ++k)
    for (const std::string side : {"l1", "l2"})
      chain.push_back(link("x/d" + std::to_string(k) + "/" + side, "../d" + std::to_string(k + 1)));
  scratch_.put("a.tar", tar_of_members(chain));
  expect_all(fault("a.tar"), {"many times the files"});

  Members broken = {{"x/0.png", "0"}};
  for (int k = 0; k < 20'000; ++k)
    broken.push_back(link("x/" + std::to_string(k) + ".png", "none/" + std::to_string(k)));
  scratch_.put("a.tar", tar_of_members(broken));
  EXPECT_NE(read("a.tar").notes.find("broken or circular links, skipped: 20,000"),
            std::string::npos);
}

TEST_F(Forms, NamesHaveNoEmptyParts) {
  expect({{"cat/./0.png", "0"},
          {"dog//1.png", "1"},
          {".//elk/.//2.png", "2"},
          link("elk/./3.png", "..//dog/./1.png"),
          {"elk//4.png", "cat/./0.png", '1'}},
         {"0:cat", "1:dog", "2:elk", "1:elk", "0:elk"}, {});
}

TEST_F(Forms, LinksLeadToHiddenFiles) {
  expect({{".git/annex/k0", "0"},
          {".git/annex/k1", "1"},
          {".dvc/cache/owl/2.png", "2"},
          {".dvc/cache/owl/.hidden.png", "no"},
          link("cat/0.png", "../.git/annex/k0"),
          link("dog/1.png", "../.git/annex/k1"),
          link("owl", ".dvc/cache/owl")},
         {"0:cat", "1:dog", "2:owl"}, {});
}

TEST_F(Forms, ALinkedFolderIsReadOnceWhereLabelFilesDecide) {
  expect({{"sub/0.png", "0"}, {"sub/0.cls", "cat"}, link("lnk", "sub")}, {"0:cat"},
         {"already included, skipped: 1 ('lnk')"});
}

TEST_F(Forms, WhatIsNoFileIsNamed) {
  expect({{"cat/0.png", "0"},
          {"cat/pipe.png", "", '6'},
          link("cat/1.png", "2.png"),
          link("cat/2.png", "1.png")},
         {"0:cat"},
         {"devices, skipped: 1 ('cat/pipe.png')", "broken or circular links, skipped: 2"});
}

TEST_F(Forms, OneNameHasOneTarget) {
  const Members two = {{"a/0.png", "0"}, {"b/1.png", "1"}, link("b/x.png", "../a/0.png")};
  Members same = two, other = two;
  same.push_back(two.back());
  scratch_.put("a.tar", tar_of_members(same));
  EXPECT_EQ(read("a.tar").images.size(), 3U);
  other.push_back(link("b/x.png", "1.png"));
  scratch_.put("a.tar", tar_of_members(other));
  expect_all(fault("a.tar"), {"'b/x.png'", "twice", "'1.png'", "'../a/0.png'"});
}

TEST_F(Forms, WhatLiesBesideShardsIsNamed) {
  const std::string tar = tar_of_members({{"cat/0.png", "0"}});
  for (const char* name : {"c.tar.xz", "d.tar.part", "x.avif", "c.tfrecord.zst", "classes.txt"})
    scratch_.put(std::string("shards/") + name);
  scratch_.put("shards/a.tar", tar);
  ASSERT_EQ(::mkfifo((scratch_ / "shards/e.tar").c_str(), 0600), 0);
  fs::create_symlink("/gone", scratch_ / "shards/lost");
  const std::string notes = read("shards").notes;
  expect_all(notes,
             {"'c.tar.xz'", "'c.tfrecord.zst'", "'d.tar.part'", "'x.avif'", "'e.tar'", "'lost'"});
  EXPECT_EQ(notes.find("classes.txt"), notes.npos);
  fs::create_symlink("/gone", scratch_ / "shards/b.tar");
  expect_all(fault("shards"), {"'b.tar'", "broken"});
}

TEST_F(Forms, AShardIsThereOnce) {
  const std::string tar = tar_of_members({{"cat/0.png", "0"}});
  const auto fault_of = [&](const std::string& folder, const std::vector<std::string>& names) {
    for (const std::string& name : names) scratch_.put(folder + "/" + name, tar);
    return fault(folder);
  };
  expect_all(fault_of("a", {"t-00000-of-00001.tar", "t-00000-of-00001.tar.gz"}),
             {"'t-00000-of-00001.tar'", "'t-00000-of-00001.tar.gz'"});
  expect_all(fault_of("b", {"t.tfrecord", "t.tfrecord.gz"}), {"'t.tfrecord'", "'t.tfrecord.gz'"});
  expect_all(fault_of("c", {"t.zip", "t.tar"}), {"'t.zip'", "'t.tar'"});
  expect_all(fault_of("d", {"t-00007-of-00002.tar"}), {"'t-00007-of-00002.tar'", "00002"});
  scratch_.put("e/a.tar", tar);
  fs::create_hard_link(scratch_ / "e/a.tar", scratch_ / "e/b.tar");
  expect_all(fault("e"), {"'a.tar'", "'b.tar'"});
  fs::remove(scratch_ / "e/b.tar");
  fs::create_symlink("a.tar", scratch_ / "e/b.tar");
  expect_all(fault("e"), {"'a.tar'", "'b.tar'"});
}

std::string coco(const std::string& images, const std::string& annotations) {
  return R"({"info": {"year": 2024}, "images": [)" + images + R"(], "annotations": [)" +
         annotations + R"(], "categories": [{"id": 0, "name": "dog"}, {"id": 1, "name": "cat"}]})";
}

TEST_F(Forms, ABrokenOrSecondCocoFileIsAnError) {
  const std::string good =
      coco(R"({"id": 7, "file_name": "dog/0.png"})", R"({"image_id": 7, "category_id": 1})");
  std::string wide;
  for (const char c : good) wide += std::string{c, '\0'};
  const auto expect_fault = [&](const Members& lists, const std::vector<std::string>& parts) {
    Members members = lists;
    members.push_back({"dog/0.png", "0"});
    for (const auto& [name, content, type] : members) scratch_.put("folder/" + name, content);
    scratch_.put("a.tar", tar_of_members(members));
    for (const char* form : {"folder", "a.tar"}) expect_all(fault(form), parts);
    fs::remove_all(scratch_ / "folder");
  };
  expect_fault({{"coco.json", good.substr(0, good.size() - 20)}}, {"'coco.json'", "line 1"});
  expect_fault({{"coco.JSON", "\xff\xfe" + wide}}, {"'coco.JSON'", "UTF-8"});
  expect_fault({{"a.json", good}, {"b.Json", good}}, {"'a.json'", "'b.Json'"});
}

TEST_F(Forms, AListGivesAnImageOneClass) {
  scratch_.put("coco/dog/0.png", "0");
  scratch_.put("coco/list.json",
               coco(R"({"id": 7, "file_name": "dog/0.png"}, {"id": 8, "file_name": "dog/./0.png"})",
                    R"({"image_id": 7, "category_id": 1}, {"image_id": 8, "category_id": 0})"));
  expect_all(fault("coco"), {"'dog/0.png'", "'cat'", "'dog'"});
  scratch_.put("directory/0.png", "0");
  scratch_.put("directory/_schema.json", schema_text({"dog", "cat"}));
  scratch_.put("directory/images.lst", R"({"image_info": {"file_name": "0.png"}, "category": "cat"}
{"image_info": {"file_name": "0.png"}, "category": "dog"})");
  expect_all(fault("directory"), {"line 2", "'0.png'", "'dog'", "'cat' in line 1"});
}

}  // namespace
}  // namespace kiln
