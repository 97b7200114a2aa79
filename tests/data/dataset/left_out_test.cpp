// Files that are no images are named by their kinds.
#include <gtest/gtest.h>

#include "data/dataset/listing.h"

namespace kiln {
namespace {

TEST(OtherFiles, AreNamedByTheirKinds) {
  LeftOut inside, files;
  for (const char* name : {"a.HEIC", "b.heif", "notes.txt", "c.gif"}) inside.add_file(name);
  files.add_all(inside, "cat/");
  files.add_file("d.CR2");
  const std::vector<std::string> notes = files.notes();
  ASSERT_EQ(notes.size(), 4U);
  EXPECT_EQ(notes[0],
            "2 files are HEIC photos, which Kiln does not read; convert them with `heif-convert`, "
            "or set the camera to JPEG: 'cat/a.HEIC', 'cat/b.heif'");
  EXPECT_EQ(notes[1],
            "1 file is a GIF image, which Kiln does not read; convert it to PNG, for example with "
            "`magick`: 'cat/c.gif'");
  EXPECT_TRUE(notes[2].starts_with("1 file is a camera's RAW file, ")) << notes[2];
  EXPECT_EQ(notes[3], "1 file does not have an image extension and is skipped: 'cat/notes.txt'");
  EXPECT_TRUE(files.instead_of_images().starts_with(
      "it contains no images that Kiln reads: 2 files are HEIC photos"));
  EXPECT_EQ(LeftOut().instead_of_images(), "it contains no images");
  for (int i = 0; i < 20; ++i) files.add_file("x.gif");
  EXPECT_TRUE(files.notes()[1].starts_with("21 files are GIF images")) << files.notes()[1];
  EXPECT_TRUE(files.notes()[1].ends_with("'x.gif', …")) << files.notes()[1];
}

}  // namespace

}  // namespace kiln
