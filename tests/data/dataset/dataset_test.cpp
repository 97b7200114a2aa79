// Class folders, COCO folders and unlabeled folders; reading for training, and class mapping.
#include "data/dataset/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data/dataset/listing.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_of(const Dataset& set) {
  std::vector<std::string> names;
  for (const Sample& item : set.samples) names.emplace_back(item.file_name);
  return names;
}

std::string joined_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(ClassFolders, LabelsAreFolderNamesByCodePoint) {
  const ScratchFolder scratch;
  scratch.put("cat/2.JPG");
  scratch.put("cat/10.png");
  scratch.put("Zebra/a.webp");
  scratch.put("\u00e9l\u00e9phant rose/a b.tiff");
  const Dataset set = read_dataset(scratch.path(), "Training dataset");
  EXPECT_EQ(set.kind, Dataset::Kind::kClassFolders);
  EXPECT_EQ(set.classes, (std::vector<std::string>{"Zebra", "cat", "\u00e9l\u00e9phant rose"}));
  EXPECT_EQ(names_of(set), (std::vector<std::string>{"Zebra/a.webp", "cat/10.png", "cat/2.JPG",
                                                     "\u00e9l\u00e9phant rose/a b.tiff"}));
  EXPECT_EQ(set.samples[3].label, 2);
  EXPECT_EQ(set.samples[3].id, 3);
  EXPECT_NE(set.schema_json.find("\"name\": \"\\u00e9l\\u00e9phant rose\""), std::string::npos);
  EXPECT_TRUE(set.notes.empty()) << joined_lines(set.notes);
}

TEST(ClassFolders, ImagesAreInByteOrderOfTheirNames) {
  const ScratchFolder scratch;
  std::vector<std::string> names;
  for (const char* end :
       {"", "1", "10", "2", "12345678", "123456789", "12345678 ", "1234567\u00e9"})
    for (const char* begin : {"c/IMG_", "d/", "d/\u00e9", "d/IMG_"})
      names.push_back(begin + std::string(end) + ".jpg");
  for (const std::string& name : names) scratch.put(name);
  std::ranges::sort(names);
  std::erase(names, "d/.jpg");  // hidden
  EXPECT_EQ(names_of(read_dataset(scratch.path(), "Training dataset")), names);
}

TEST(ClassFolders, SkippedFilesAreNoted) {
  const ScratchFolder scratch;
  scratch.put("cat/1.jpg");
  scratch.put("cat/deep/2.jpg");
  scratch.put("cat/.1.jpg");
  scratch.put("cat/._1.jpg");  // what macOS leaves behind is not worth a word
  scratch.put("beside.jpg");
  scratch.put("__MACOSX/1.jpg");
  fs::create_directory(scratch / "empty");
  const Dataset set = read_dataset(scratch.path(), "Training dataset");
  EXPECT_EQ(set.classes, std::vector<std::string>{"cat"});
  const std::string notes = joined_lines(set.notes);
  for (const char* name : {"'empty'", "'cat/deep'", "'beside.jpg'", "begin with a dot"}) {
    EXPECT_NE(notes.find(name), std::string::npos) << notes;
  }
}

TEST(ClassFolders, FilesThatAreNoImagesAreCounted) {
  const ScratchFolder scratch;
  scratch.put("labels.txt");
  scratch.put("cat/1.jpg");
  scratch.put("cat/.hidden");
  scratch.put("cat/readme.txt");
  for (int i = 0; i < 20; ++i) scratch.put("dog/" + std::to_string(i) + ".json");
  EXPECT_TRUE(read_dataset(scratch.path(), "Training dataset").notes.size() == 2U)
      << "dog is no class";
  scratch.put("dog/1.jpg");
  const Dataset set = read_dataset(scratch.path(), "Training dataset");
  ASSERT_EQ(set.notes.size(), 1U) << joined_lines(set.notes);
  EXPECT_NE(set.notes[0].find("21 ('cat/readme.txt', 'dog/0.json'"), std::string::npos)
      << set.notes[0];
  EXPECT_EQ(set.notes[0].find("labels.txt"), std::string::npos);
  EXPECT_LT(set.notes[0].size(), 300U);
}

TEST(ClassFolders, ListsAndPackedFilesBesideThemAreNamed) {
  const ScratchFolder scratch;
  for (const char* name :
       {"cat/1.jpg", "dog/ISIC_7.jpg", "bird.zip", "a.tfrecord", "x.parquet", "LICENSE.txt",
        "README.md", "classes.txt", ".hidden.csv", "folders-000000.idx"})
    scratch.put(name);
  scratch.put("sizes.csv", "1,2\n3,4\n");
  const auto notes = [&] { return read_dataset(scratch.path(), "Data").notes; };
  ASSERT_EQ(notes().size(), 1U) << joined_lines(notes());
  EXPECT_NE(notes()[0].find("4 ('a.tfrecord', 'bird.zip', 'sizes.csv', 'x.parquet')"),
            std::string::npos)
      << notes()[0];
  fs::remove(scratch / "x.parquet");
  scratch.put("x.csv", "image,label\nISIC_6,fox\nISIC_7,owl\n");
  scratch.put("x.jsonl", R"({"file_name":"cat/1.jpg","label":3})");
  scratch.put("x.txt", "photos/1.jpg 3\n");
  ASSERT_EQ(notes().size(), 2U) << joined_lines(notes());
  EXPECT_NE(notes()[1].find("--labels: 3 ('x.csv', 'x.jsonl', 'x.txt')"), std::string::npos)
      << notes()[1];
}

TEST(ClassFolders, LinksAreFollowedAndLoopsAreNamed) {
  const ScratchFolder scratch;
  const ScratchFolder elsewhere;
  elsewhere.put("pictures/1.jpg");
  elsewhere.put("2.jpg");
  scratch.put("cat/0.jpg");
  fs::create_directory_symlink(elsewhere / "pictures", scratch / "dog");
  fs::create_symlink(elsewhere / "2.jpg", scratch / "cat/2.jpg");
  fs::create_directory_symlink("..", scratch / "cat/up");
  fs::create_directory_symlink(".", scratch / "self");
  fs::create_symlink("ring.jpg", scratch / "cat/ring.jpg");
  const Dataset set = read_dataset(scratch.path(), "Training dataset");
  EXPECT_EQ(names_of(set), (std::vector<std::string>{"cat/0.jpg", "cat/2.jpg", "dog/1.jpg"}));
  const std::string notes = joined_lines(set.notes);
  for (const char* name : {"'cat/up'", "'self'", "'cat/ring.jpg'"}) {
    EXPECT_NE(notes.find(name), std::string::npos) << notes;
  }
}

TEST(UnlabeledFolder, FindsImagesAtAnyDepthAndSurvivesLoops) {
  const ScratchFolder scratch;
  scratch.put("b.jpg");
  scratch.put("one/two/a.png");
  fs::create_directory_symlink("../..", scratch / "one/two/up");
  fs::create_directory_symlink("one", scratch / "twin");
  const Dataset set = read_dataset(scratch.path(), "Training dataset");
  EXPECT_EQ(set.kind, Dataset::Kind::kUnlabeledFolder);
  EXPECT_FALSE(set.labeled());
  EXPECT_EQ(names_of(set), (std::vector<std::string>{"b.jpg", "one/two/a.png"}));
  EXPECT_NE(joined_lines(set.notes).find("'one/two/up'"), std::string::npos)
      << joined_lines(set.notes);
  const Error error = error_of([&] { read_labeled_dataset(scratch.path(), "Training dataset"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotLabeledDataset);
  EXPECT_NE(error.message().find((scratch / "one").string() + "'"), std::string::npos);
  EXPECT_NE(error.message().find(depth_advice(set)), std::string::npos);
}

TEST(UnlabeledFolder, OneLevelGetsNoAdviceOnDepth) {
  const ScratchFolder scratch;
  scratch.put("b.jpg");
  EXPECT_EQ(depth_advice(read_dataset(scratch.path(), "Training dataset")), "");
  scratch.put("cat/a.jpg");
  EXPECT_EQ(depth_advice(read_dataset(scratch.path(), "Training dataset")), "");
}

TEST(Dataset, MissingEmptyAndWrongInputsAreError18) {
  const ScratchFolder scratch;
  const auto message_of = [](const fs::path& path) {
    const Error error = error_of([&] { read_dataset(path, "Validation dataset"); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
    EXPECT_TRUE(error.message().starts_with("Validation dataset '" + path.string() + "': "));
    return error.message();
  };
  EXPECT_NE(message_of(scratch.path()).find("is empty"), std::string::npos);
  EXPECT_NE(message_of(scratch / "gone").find("does not exist"), std::string::npos);
  fs::create_directory(scratch / "train");
  EXPECT_NE(message_of(scratch / "trian").find((scratch / "train").string()), std::string::npos);
  fs::remove(scratch / "train");
  scratch.put("data.zip");
  EXPECT_NE(message_of(scratch / "data.zip").find("neither a zip, a tar"), std::string::npos);
  EXPECT_NE(message_of(scratch.path()).find("data.zip' cannot be used"), std::string::npos);
  fs::rename(scratch / "data.zip", scratch / "data.doc");
  EXPECT_NE(message_of(scratch / "data.doc").find("a file whose name does not say what it is"),
            std::string::npos);
  EXPECT_NE(message_of(scratch.path()).find("no image"), std::string::npos);
  fs::create_symlink("ring", scratch / "ring");
  message_of(scratch / "ring");
  fs::remove_all(scratch / "data.doc");
  EXPECT_NE(message_of(scratch.path()).find("circular"), std::string::npos);
}

TEST(Dataset, ClassFoldersOneFolderDeeperAreNoLabels) {
  const ScratchFolder scratch;
  scratch.put("train/cat/1.jpg");
  const auto read = [&] { read_labeled_dataset(scratch.path(), "Training dataset"); };
  const Error error = error_of(read);
  EXPECT_EQ(error.code(), ErrorCode::kNotLabeledDataset);
  EXPECT_NE(error.message().find("more than one folder deep"), std::string::npos);
  scratch.put("test/dog/2.jpg");
  EXPECT_NE(error_of(read).message().find("/train'"), std::string::npos);
  scratch.put("val/cat/2.jpg");
  EXPECT_NE(error_of(read).message().find("--valid-data-path"), std::string::npos);
}

TEST(Dataset, FoldersOfOneNameInEachClassAreNoClasses) {
  const ScratchFolder scratch;
  for (const char* name : {"n01443537/images/0.JPEG", "n01629819/images/0.JPEG"}) scratch.put(name);
  const Error error = error_of([&] { read_labeled_dataset(scratch.path(), "Data"); });
  EXPECT_NE(error.message().find("move the images up"), std::string::npos) << error.message();
}

TEST(Dataset, FoldersOfSetsAreNoClasses) {
  const ScratchFolder scratch;
  scratch.put("Train/a.jpg", "a");
  scratch.put("val/b.jpg", "b");
  const Error error = error_of([&] { read_labeled_dataset(scratch.path(), "Data"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotLabeledDataset);
  scratch.put("cat/c.jpg", "c");
  EXPECT_EQ(error_of([&] { read_labeled_dataset(scratch.path(), "Data"); }).code(),
            ErrorCode::kNotLabeledDataset);
}

// What training does with a folder that has an image in each of these folders.
enum class Taken { kAsClasses, kWithANote, kNotAtAll };

Taken taken(const std::vector<std::string>& folders) {
  const ScratchFolder scratch;
  std::string names;
  for (const std::string& folder : folders) {
    scratch.put("data/" + folder + "/a.jpg", "a");
    names += folder + "\n";
  }
  scratch.put("classes", names);
  const RecordOptions given{.classes_file = scratch / "classes"};
  const Dataset named = read_labeled_dataset(scratch / "data", "Data", given);
  EXPECT_EQ(named.classes, folders);
  EXPECT_TRUE(named.notes.empty()) << joined_lines(named.notes);
  const std::vector<std::string> notes = read_dataset(scratch / "data", "Data").notes;
  try {
    const Dataset set = read_labeled_dataset(scratch / "data", "Data");
    EXPECT_EQ(set.notes, notes);
    if (notes.empty()) return Taken::kAsClasses;
    EXPECT_NE(notes.at(0).find("--classes"), std::string::npos);
    return Taken::kWithANote;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotLabeledDataset);
    EXPECT_NE(error.message().find(notes.at(0)), std::string::npos);
    EXPECT_NE(error.message().find("'" + folders.back() + "'"), std::string::npos);
    return Taken::kNotAtAll;
  }
}

TEST(Dataset, FoldersWithSetsInTheirNamesAreNoClasses) {
  for (const std::vector<std::string>& folders :
       std::vector<std::vector<std::string>>{{"test_images", "train_images"},
                                             {"train2017", "val2017"},
                                             {"test_set", "training_set"},
                                             {"seg_test", "seg_train"},
                                             {"testset", "trainset"},
                                             {"TestImages", "TrainImages"},
                                             {"eval", "train"},
                                             {"DEV", "Holdout", "training 2"},
                                             {"images", "masks"},
                                             {"train-image", "train-masks"},
                                             {"train", "train_masks"},
                                             {"jpg", "segmim"},
                                             {"JPEGImages", "SegmentationClass"},
                                             {"extra", "test", "train"},
                                             {"bounding_box_test", "bounding_box_train", "query"},
                                             {"cat", "test", "train"},
                                             {"cat", "dog", "test", "val"}})
    EXPECT_EQ(taken(folders), Taken::kNotAtAll) << folders.front();
  for (const std::vector<std::string>& folders :
       std::vector<std::vector<std::string>>{{"images_part_1", "images_part_2"},
                                             {"fold1", "fold2", "fold3"},
                                             {"Batch 1", "Batch 2"},
                                             {"images_001", "images_002"},
                                             {"cat", "dog", "val"},
                                             {"_unlabeled", "cat"},
                                             {"cat", "nan"},
                                             {"train1", "train2"}})
    EXPECT_EQ(taken(folders), Taken::kWithANote) << folders.front();
  for (const std::vector<std::string>& folders :
       std::vector<std::vector<std::string>>{{"test_tube", "train"},
                                             {"car", "train"},
                                             {"class_a", "class_b"},
                                             {"bag", "box"},
                                             {"mask", "no_mask"},
                                             {"label_0", "label_1"},
                                             {"part1", "whole"},
                                             {"left part 1", "right part 1"},
                                             {"0", "1"},
                                             {"trainer", "validator"},
                                             {"train"}})
    EXPECT_EQ(taken(folders), Taken::kAsClasses) << folders.front();
}

TEST(Dataset, AListBesideFoldersOfSetsIsNamedInTheirRefusal) {
  const ScratchFolder scratch;
  scratch.put("train_images/0001.jpg", "a");
  scratch.put("test_images/0002.jpg", "b");
  scratch.put("train.csv", "image_id,label\n0001,cat\n");
  const Error error = error_of([&] { read_labeled_dataset(scratch.path(), "Data"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotLabeledDataset);
  EXPECT_NE(error.message().find("--labels: 1 ('train.csv')"), std::string::npos)
      << error.message();
}

TEST(Dataset, ABrokenJsonFileIsNamedWhereLabelsAreMissing) {
  const ScratchFolder scratch;
  scratch.put("1.jpg");
  scratch.put("labels.json", "{\"image\": [");
  const Error error = error_of([&] { read_labeled_dataset(scratch.path(), "Training dataset"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotLabeledDataset);
  EXPECT_NE(error.message().find("'labels.json' is ignored"), std::string::npos) << error.message();
}

TEST(Dataset, UnlabeledImagesAreLeftOutOfTraining) {
  const ScratchFolder scratch;
  scratch.put("_schema.json", schema_text({"cat"}));
  scratch.put("a.jpg");
  scratch.put("b.jpg");
  scratch.put("images.lst",
              "{\"image_info\": {\"file_name\": \"b.jpg\"}, \"id\": 0}\n"
              "{\"image_info\": {\"file_name\": \"a.jpg\"}, \"category\": \"cat\", \"id\": 1}\n");
  const Dataset set = read_labeled_dataset(scratch.path(), "Training dataset");
  ASSERT_EQ(set.samples.size(), 1U);
  EXPECT_EQ(set.samples[0].id, 1);
  EXPECT_EQ(joined_lines(set.notes), "1 of 2 images have no label and are skipped\n");
  scratch.put("images.lst", "{\"image_info\": {\"file_name\": \"a.jpg\"}, \"id\": 0}\n");
  EXPECT_EQ(error_of([&] { read_labeled_dataset(scratch.path(), "Training dataset"); }).code(),
            ErrorCode::kInvalidDataset);
  scratch.put("images.lst", "");
  EXPECT_EQ(error_of([&] { read_labeled_dataset(scratch.path(), "Training dataset"); }).code(),
            ErrorCode::kInvalidDataset);
  scratch.put("_schema.json", schema_text({}));
  EXPECT_EQ(error_of([&] { read_labeled_dataset(scratch.path(), "Training dataset"); }).code(),
            ErrorCode::kNotLabeledDataset);
}

Dataset labeled(const std::vector<std::string>& classes, const std::vector<int>& labels) {
  Dataset set;
  set.name = "Validation dataset";
  set.classes = classes;
  for (const int label : labels) {
    set.samples.push_back({.file_name = "x", .label = label, .id = 0, .size = {}});
  }
  return set;
}

TEST(MapClasses, MapsByName) {
  const Dataset train = labeled({"ant", "bee", "cat"}, {0, 1, 2});
  Dataset valid = labeled({"bee", "cat", "unused"}, {1, 0, 1, -1});
  map_classes(train, valid);
  EXPECT_EQ(valid.classes, train.classes);
  EXPECT_EQ(valid.samples[0].label, 2);
  EXPECT_EQ(valid.samples[1].label, 1);
  EXPECT_EQ(valid.samples[3].label, -1);
}

TEST(MapClasses, NamesTheClassThatMayBeMeant) {
  const Dataset train = labeled({"SHIP", "truck"}, {0, 1});
  Dataset valid = labeled({"Ship", "truck"}, {0, 1});
  const Error error = error_of([&] { map_classes(train, valid); });
  EXPECT_NE(error.message().find("'Ship' (similar: 'SHIP')"), std::string::npos);
}

TEST(MapClasses, OfSeveralLabelsLeavesOutWhatNoImageHas) {
  const Dataset train = labeled({"ant", "bee", "cat"}, {0, 1, 2});
  Dataset valid = labeled({"bee", "cat", "unused"}, {0, 1});
  valid.labels.sets = {{1}, {0, 1}, {2}};
  map_classes(train, valid);
  EXPECT_EQ(valid.labels.sets, (std::vector<std::vector<int>>{{2}, {1, 2}, {}}));
  EXPECT_EQ(valid.label_text(valid.samples.label(1)), "bee;cat");
}

TEST(MapClasses, NamesClassesMissingFromTraining) {
  const Dataset train = labeled({"ant"}, {0});
  Dataset valid = labeled({"ant", "dog"}, {0, 1, 1});
  const Error error = error_of([&] { map_classes(train, valid); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
  EXPECT_NE(error.message().find("1 class is not in the training dataset"), std::string::npos);
  EXPECT_NE(error.message().find("'dog'"), std::string::npos);
}

constexpr const char* kCocoImages =
    R"("images": [{"id": 7, "file_name": "p/a.jpg", "width": 4, "height": 3},
                                           {"id": 9, "file_name": "p/b.jpg"}])";
constexpr const char* kCocoCategories = R"("categories": [{"id": 1, "name": "cat"}])";

class CocoTest : public testing::Test {
 protected:
  CocoTest() {
    scratch_.put("p/a.jpg");
    scratch_.put("p/b.jpg");
  }
  void put(const std::string& annotations) {
    scratch_.put("labels.json", "{" + std::string(kCocoImages) + ", " + kCocoCategories +
                                    ", \"annotations\": " + annotations + "}");
  }
  void expect_fault(const std::string& annotations, const std::string& what) {
    put(annotations);
    const Error error = error_of([&] { read_dataset(scratch_.path(), "Training dataset"); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
    EXPECT_NE(error.message().find("labels.json"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
  }
  ScratchFolder scratch_;
};

TEST_F(CocoTest, ClassificationIsRead) {
  put(R"([{"image_id": 9, "category_id": 1}])");
  scratch_.put("broken.json", "{");
  const Dataset set = read_dataset(scratch_.path(), "Training dataset");
  EXPECT_EQ(set.kind, Dataset::Kind::kCoco);
  EXPECT_EQ(set.classes, (std::vector<std::string>{"Others", "cat"}));
  ASSERT_EQ(set.samples.size(), 2U);
  EXPECT_EQ(set.samples[0].label, -1);
  EXPECT_EQ(set.samples[0].size, (ImageSize{.height = 3, .width = 4}));
  EXPECT_EQ(set.samples[1].label, 1);
  EXPECT_EQ(set.samples[1].id, 9);
  EXPECT_NE(joined_lines(set.notes).find("'broken.json' is ignored"), std::string::npos);
}

TEST_F(CocoTest, OtherTasksAndFaultsAreError18) {
  expect_fault(R"([{"image_id": 9, "category_id": 1, "bbox": [0, 0, 1, 1]}])",
               "another task (\"bbox\")");
  expect_fault(R"([{"image_id": 9, "caption": "a cat"}])", "another task (\"caption\")");
  expect_fault(R"([{"image_id": 8, "category_id": 1}])", "no image has the id 8");
  expect_fault(R"([{"image_id": 9, "category_id": 2}])", "no category has the id 2");
  expect_fault(R"([{"image_id": "9", "category_id": 1}])", "annotations entry 1");
  expect_fault("[3]", "annotations entry 1");
  std::filesystem::remove(scratch_ / "p/b.jpg");
  expect_fault("[]", "'p/b.jpg' is missing");
}

TEST_F(CocoTest, FaultsOfImagesAndCategoriesAreError18) {
  const auto expect = [&](const std::string& images, const std::string& categories,
                          const std::string& what) {
    scratch_.put("labels.json", "{\"images\": [" + images + "], \"categories\": [" + categories +
                                    "], \"annotations\": []}");
    const Error error = error_of([&] { read_dataset(scratch_.path(), "Training dataset"); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
    EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
  };
  const std::string image = R"({"id": 7, "file_name": "p/a.jpg"})";
  const std::string category = R"({"id": 1, "name": "cat"})";
  expect(image, "", "no list \"categories\"");
  expect(image, category + "," + category, "duplicate");
  expect(image + "," + image, category, "the id 7 appears twice");
  expect(R"({"id": 8, "file_name": "../x.png"})", category, "'..'");
}

TEST_F(CocoTest, AnUnusedIdHasTheNameOfNoCategory) {
  scratch_.put("labels.json", "{" + std::string(kCocoImages) + R"list(, "categories": [
      {"id": 1, "name": "cat"}, {"id": 3, "name": "Others"}, {"id": 5, "name": "Others (id 2)"}],
      "annotations": [{"image_id": 9, "category_id": 3}, {"image_id": 7, "category_id": 1}]})list");
  const Dataset set = read_dataset(scratch_.path(), "Training dataset");
  EXPECT_EQ(set.classes, (std::vector<std::string>{"Others (id 0)", "cat", "Others (id 2)_",
                                                   "Others", "Others (id 4)", "Others (id 2)"}));
  EXPECT_EQ(set.samples[1].label, 3);
  EXPECT_NE(joined_lines(set.notes).find("'Others (id 0)'"), std::string::npos);
  // What `kiln convert` writes of unused ids can be read.
  for (const std::vector<std::string>& classes :
       {set.classes, std::vector<std::string>{"Others", "cat", "Others", "dog"}})
    EXPECT_EQ(parse_schema(schema_text(classes), "_schema.json", {}).classes, classes);
}

TEST_F(CocoTest, AFileOfTwoIdsCountsOnce) {
  const auto read = [&](const std::string& annotations, const RecordOptions& options = {}) {
    scratch_.put("labels.json", R"({"images": [{"id": 7, "file_name": "p/a.jpg"},
        {"id": 8, "file_name": "p/b.jpg"}, {"id": 9, "file_name": "p/./a.jpg"}], "categories":
        [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}], "annotations": [)" +
                                    annotations + "]}");
    return read_dataset(scratch_.path(), "Data", options);
  };
  const std::string first = R"({"image_id": 7, "category_id": 1})";
  for (const std::string& annotations : {first, first + R"(, {"image_id": 9, "category_id": 1})",
                                         std::string(R"({"image_id": 9, "category_id": 1})")}) {
    const Dataset set = read(annotations);
    ASSERT_EQ(set.samples.size(), 2U);
    EXPECT_EQ(set.samples.label(0), 1);
    EXPECT_EQ(set.samples.label(1), -1);
    EXPECT_NE(joined_lines(set.notes).find("labels.json: 1 entry"), std::string::npos);
  }
  const std::string two = first + R"(, {"image_id": 9, "category_id": 0})";
  const Error error = error_of([&] { read(two); });
  EXPECT_NE(error.message().find("annotations entry 2"), std::string::npos) << error.message();
  EXPECT_EQ(read(two, {.task = TaskKind::kMultiLabel}).label_text(0), "cat;dog");
}

TEST_F(CocoTest, AKeyTwiceIsRefused) {
  expect_fault(R"([{"image_id": 9, "category_id": 1},
                   {"image_id": 7, "category_id": 1, "category_id": 1}])",
               "'category_id' twice, in entry 2 of 'annotations'");
}

}  // namespace
}  // namespace kiln
