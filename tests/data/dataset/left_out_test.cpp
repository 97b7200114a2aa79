// Files that are no images are named by their kinds.
#include <gtest/gtest.h>

#include "data/dataset/listing.h"
#include "data/image/codec.h"

namespace kiln {
namespace {

TEST(OtherFiles, AreNamedByTheirKinds) {
  LeftOut inside, files;
  for (const char* name : {"a.HEIC", "b.heif", "notes.txt", "c.gif"}) inside.add_file(name);
  files.add_all(inside, "cat/");
  files.add_file("d.CR2");
  const std::vector<std::string> notes = files.notes();
  ASSERT_EQ(notes.size(), 4U);
  EXPECT_TRUE(
      notes[0].starts_with("HEIC photos, which Kiln does not read (" + codec::heic_fault()));
  for (const char* word : {"libheif1", "libheif-plugin-libde265", "libheif-freeworld",
                           "do heif-convert \"$f\"", "set the camera to JPEG"})
    EXPECT_NE(notes[0].find(word), std::string::npos) << word;
  EXPECT_TRUE(notes[0].ends_with("): 2 ('cat/a.HEIC', 'cat/b.heif')")) << notes[0];
  EXPECT_EQ(notes[1],
            "GIF images, which Kiln does not read (convert to PNG, for example with `magick`): 1 "
            "('cat/c.gif')");
  EXPECT_TRUE(notes[2].starts_with("RAW files of a camera, ")) << notes[2];
  EXPECT_EQ(notes[3], "files without an image extension, skipped: 1 ('cat/notes.txt')");
  EXPECT_TRUE(
      files.instead_of_images().starts_with("it contains no images that Kiln reads: HEIC photos"));
  EXPECT_EQ(LeftOut().instead_of_images(), "it contains no images");
  for (int i = 0; i < 20; ++i) files.add_file("x.gif");
  EXPECT_TRUE(files.notes()[1].starts_with("GIF images")) << files.notes()[1];
  EXPECT_TRUE(
      files.notes()[1].ends_with(": 21 ('cat/c.gif', 'x.gif', 'x.gif', 'x.gif', 'x.gif', 'x.gif', "
                                 "'x.gif', 'x.gif', 'x.gif', 'x.gif', …)"))
      << files.notes()[1];
}

}  // namespace

}  // namespace kiln
