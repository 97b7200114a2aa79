// What the headers of a dataset's images say.
#include "run/inputs/image_sizes.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "data/dataset/listing.h"
#include "data/make_image.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

class ImageSizes : public testing::Test {
 protected:
  ImageSizes() {
    for (const char* name : {"cat/1.png", "cat/2.png", "dog/3.png"}) put_image(name, 8);
  }
  void put_image(const std::string& name, int side) {
    data_.put(name, test::encode_png(test::plain(side, side, 1, 2, 3)));
  }
  Dataset read() { return read_labeled_dataset(data_.path(), "Training dataset"); }

  ScratchFolder data_;
};

TEST_F(ImageSizes, ImagesThatShowLittleAreTold) {
  EXPECT_NE(note_of_lost_contrast(read()).find("one color"), std::string::npos);
  Image dark = test::gradient(8, 8);
  for (std::uint8_t& value : dark.pixels) value /= 4;  // 14 of 16 bits
  data_.put("dog/3.png", test::encode_png(dark));
  EXPECT_NE(note_of_lost_contrast(read()).find("nearly black"), std::string::npos);
  data_.put("dog/3.png", test::encode_png(test::gradient(8, 8)));
  EXPECT_EQ(note_of_lost_contrast(read()), "");
}

TEST_F(ImageSizes, SizesAreReadOnlyUntilTwoDiffer) {
  for (int i = 0; i < 300; ++i) put_image("dog/" + std::to_string(1000 + i) + ".png", 8 + i % 2);
  Dataset set = read();
  EXPECT_LT(scan_sizes(set, SizesWanted::kCommon), set.samples.size());
  EXPECT_EQ(common_size({&set}), std::nullopt);
  scan_sizes(set, SizesWanted::kAll);
  for (const Sample& item : set.samples) EXPECT_TRUE(item.size) << item.file_name;
}

TEST_F(ImageSizes, ThoseOfAListAreComparedWithTheImages) {
  const ScratchFolder folder;
  folder.put("a.png", test::encode_png(test::plain(8, 8, 1, 2, 3)));
  folder.put("_schema.json", schema_text({"cat"}));
  for (const std::string side : {"10000", "8"}) {
    folder.put("images.lst", R"({"image_info": {"file_name": "a.png", "width": )" + side +
                                 R"(, "height": )" + side + R"(}, "category": "cat"})" + "\n");
    Dataset set = read_labeled_dataset(folder.path(), "Data");
    scan_sizes(set, SizesWanted::kCommon);
    EXPECT_EQ(common_size({&set}), (ImageSize{8, 8}));
    ASSERT_EQ(set.notes.size(), side == "8" ? 0U : 1U);
    EXPECT_EQ(joined(set.notes, "").find("images.lst") == std::string::npos, side == "8");
  }
}

// As older programs left it among shards: nothing is read of it.
TEST_F(ImageSizes, AnIndexOfListingsIsIgnored) {
  data_.put(".kiln-shards", "kiln-ixE of another program");
  EXPECT_EQ(read().samples.size(), 3U);
  EXPECT_TRUE(read().notes.empty());
}

}  // namespace
}  // namespace kiln
