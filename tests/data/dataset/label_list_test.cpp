// Lists of images and their labels: every format gives the same rows, and what rows mean.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/image_source.h"
#include "data/dataset/label_list.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

class LabelList : public testing::Test {
 protected:
  LabelList() {
    for (const char* name : {"cat/a.jpg", "cat/b c.jpg", "dog/a.jpg", "dog/d,e.jpg", "other/f.jpg"})
      scratch_.put(name, name);
  }
  Dataset read(const std::string& name, const std::string& text,
               const RecordOptions& options = {}) {
    scratch_.put(name, text);
    return read_dataset(scratch_ / name, "Data", options);
  }
  // "cat/a.jpg=cat" for each image.
  static Texts rows(const Dataset& set) {
    Texts texts;
    for (const Sample& item : set.samples)
      texts.push_back(std::string(item.file_name) + "=" + set.label_text(item.label));
    return texts;
  }
  void expect_rows(const std::string& name, const std::string& text, const Texts& expected,
                   const RecordOptions& options = {}) {
    SCOPED_TRACE(name + "\n" + text);
    const Dataset set = read(name, text, options);
    EXPECT_EQ(set.kind, Dataset::Kind::kLabelList);
    EXPECT_EQ(rows(set), expected);
    std::string bytes;
    for (std::size_t i = 0; i < set.samples.size(); ++i) {
      read_image_bytes(set, i, bytes);
      EXPECT_EQ(bytes, set.samples.file_name(i));
    }
  }
  void expect_fault(const std::string& name, const std::string& text, const Texts& words,
                    const RecordOptions& options = {}) {
    const Error error = error_of([&] { read(name, text, options); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset);
    for (const std::string& word : words)
      EXPECT_NE(error.message().find(word), std::string::npos) << word << "\n" << error.message();
  }
  ScratchFolder scratch_;
  const Texts two_ = {"dog/a.jpg=dog", "cat/a.jpg=cat"};
};

TEST_F(LabelList, TablesOfEveryKind) {
  expect_rows("l.csv", "path,label\ndog/a.jpg,dog\ncat/a.jpg,cat\n", two_);
  expect_rows("l.csv", "\xef\xbb\xbfLabel,Image_Path\r\ndog,dog/a.jpg\r\ncat,cat/a.jpg", two_);
  expect_rows("l.csv", "id;filename;class\n1;dog/a.jpg;dog\n2;./cat//a.jpg;cat\n", two_);
  expect_rows("l.tsv", "file\tcategory\ndog/a.jpg\tdog\ncat/a.jpg\tcat\n", two_);
  expect_rows("l.csv", "dog/a.jpg,dog\ncat/a.jpg,cat\n", two_);
  expect_rows("l.csv", "dog,dog/a.jpg\ncat,cat/a.jpg\n", two_);
  expect_rows("l.csv", "path,label\n\"dog/d,e.jpg\",\"a \"\"big\"\" one\"\n",
              {"dog/d,e.jpg=a \"big\" one"});
  expect_rows("l.csv", "n,x,y\n1,dog/a.jpg,dog\n2,cat/a.jpg,cat\n", two_,
              {.columns = {{"path", "x"}, {"label", "y"}}});
  expect_rows("l.csv", "1,dog/a.jpg,dog,x\n2,cat/a.jpg,cat,x\n", two_,
              {.columns = {{"path", "2"}, {"label", "3"}}});
  expect_rows("l.txt", "dog/a.jpg dog\ncat/b c.jpg cat\n", {"dog/a.jpg=dog", "cat/b c.jpg=cat"});
  expect_rows("l.txt", "dog/a.jpg\ncat/b c.jpg\n", {"dog/a.jpg=", "cat/b c.jpg="});
  expect_rows("l.lst", "0\t1.000000\tdog/a.jpg\n1\t0.000000\tcat/a.jpg\n",
              {"dog/a.jpg=1", "cat/a.jpg=0"});
}

TEST_F(LabelList, JsonOfEveryKind) {
  expect_rows("l.jsonl",
              "{\"path\": \"dog/a.jpg\", \"label\": \"dog\"}\n"
              "{\"label\": \"cat\", \"path\": \"cat/a.jpg\", \"more\": {}}\n",
              two_);
  expect_rows("l.json",
              "[{\"image\": \"dog/a.jpg\", \"choice\": {\"choices\": [\"dog\"]}},\n"
              "{\"image\": \"cat/a.jpg\", \"choice\": \"cat\"}]",
              two_);
  expect_rows("l.manifest",
              "{\"source-ref\": \"s3://b/dog/a.jpg\", \"x\": 1, \"x-metadata\": {\"class-name\": "
              "\"dog\", \"type\": \"groundtruth/image-classification\"}}\n"
              "{\"source-ref\": \"s3://b/cat/a.jpg\", \"x\": 0, \"x-metadata\": {\"class-name\": "
              "\"cat\"}}\n",
              two_, {.list_roots = {{"s3://b/", scratch_.path().string()}}});
  expect_rows("l.manifest",
              "{\"source-ref\": \"dog/a.jpg\", \"x\": 1, \"x-metadata\": {\"class-map\": "
              "{\"1\": \"dog\"}}}\n",
              {"dog/a.jpg=dog"});
  const std::string of_jobs =
      "{\"source-ref\": \"dog/a.jpg\", \"class\": 0, \"class-metadata\": {\"class-name\": "
      "\"dog\"}, "
      "\"x\": 0, \"x-metadata\": {\"class-name\": \"brown\"}}\n"
      "{\"source-ref\": \"cat/a.jpg\", \"class\": 0, \"class-metadata\": {\"class-name\": "
      "\"cat\"}}\n";
  expect_rows("l.manifest", of_jobs, two_);
  expect_rows("l.manifest", of_jobs, {"dog/a.jpg=brown", "cat/a.jpg="},
              {.columns = {{"label", "x"}}});
  expect_rows("l.jsonl",
              "{\"image_url\": \"azureml://s/paths/dog/a.jpg\", \"label\": \"dog\"}\n"
              "{\"image_url\": \"azureml://s/paths/cat/a.jpg\", \"label\": \"cat\"}\n",
              two_, {.list_roots = {{"azureml://s/paths/", scratch_.path().string() + "/"}}});
  expect_rows("l.json",
              "[{\"id\": 1, \"data\": {\"image\": \"/data/local-files/?d=dog/a.jpg\"}, "
              "\"annotations\": [{\"result\": [{\"type\": \"choices\", \"value\": {\"choices\": "
              "[\"dog\"]}}]}]},\n{\"id\": 2, \"data\": {\"image\": "
              "\"/data/local-files/?d=cat/a.jpg\"}, \"annotations\": [{\"was_cancelled\": true, "
              "\"result\": []}]}]",
              {"dog/a.jpg=dog", "cat/a.jpg="},
              {.list_roots = {{"/data/local-files/?d=", scratch_.path().string()}}});
}

TEST_F(LabelList, AnswersToSeveralQuestionsAreNotOneSetOfClasses) {
  const auto task = [](const std::string& path, const Texts& answers) {
    std::string results;
    for (const std::string& answer : answers) {
      const std::size_t mark = answer.find('=');
      results += (results.empty() ? "" : ", ") + std::string("{\"from_name\": \"") +
                 answer.substr(0, mark) + "\", \"value\": {\"choices\": [\"" +
                 answer.substr(mark + 1) + "\"]}}";
    }
    return "{\"data\": {\"image\": \"" + path + "\"}, \"annotations\": [{\"result\": [" + results +
           "]}]}\n";
  };
  const std::string both = task("dog/a.jpg", {"animal=dog", "quality=sharp"}) +
                           task("cat/a.jpg", {"quality=blurred", "animal=cat"});
  const std::string each = task("dog/a.jpg", {"animal=dog"}) + task("cat/a.jpg", {"quality=sharp"});
  for (const TaskKind kind : {TaskKind::kAuto, TaskKind::kMultiLabel})
    for (const std::string& text : {both, each})
      expect_fault("l.jsonl", text, {"'animal'", "'quality'", "--columns label=NAME"},
                   {.task = kind});
  expect_rows("l.jsonl", both, two_, {.columns = {{"label", "animal"}}});
  expect_rows("l.jsonl", task("dog/a.jpg", {"animal=dog"}) + task("cat/a.jpg", {"animal=cat"}),
              two_);
}

TEST_F(LabelList, AClassThatAnImageHasNotIsNoLabel) {
  const std::string head = "ImageID,Source,LabelName,Confidence\n";
  const RecordOptions named = {.columns = {{"path", "ImageID"}, {"label", "LabelName"}}};
  for (const char* zero : {"0", "0.0", "-0", "+0", "0e0"})
    expect_rows("l.csv",
                head + "dog/a.jpg,verification,dog,1\ncat/a.jpg,verification,dog," + zero + "\n",
                {"dog/a.jpg=dog", "cat/a.jpg="}, named);
  expect_fault("l.csv", head + "dog/a.jpg,verification,dog,high\n", {"line 2", "'high'"}, named);
  expect_rows("l.csv", head + "dog/a.jpg,verification,dog,1\ncat/a.jpg,machine,cat,0.04\n", two_,
              named);
  const std::string dog = "{\"path\": \"dog/a.jpg\", \"label\": \"dog\", \"confidence\": 1}\n";
  const std::string cat = "{\"path\": \"cat/a.jpg\", \"label\": \"cat\", \"Confidence\": 0";
  expect_rows("l.jsonl", dog + cat + "}\n", {"dog/a.jpg=dog", "cat/a.jpg="});
  expect_fault("l.jsonl", dog + cat + "x\"}\n", {"line 2"});
  expect_rows("l.jsonl", dog + cat + ".04}\n", two_);
}

TEST_F(LabelList, CocoFilesAreListsToo) {
  scratch_.put("l.json",
               "{\"images\": [{\"id\": 1, \"file_name\": \"dog/a.jpg\"}], \"annotations\": "
               "[{\"image_id\": 1, \"category_id\": 1}], \"categories\": [{\"id\": 0, \"name\": "
               "\"cat\"}, {\"id\": 1, \"name\": \"dog\"}]}");
  const Dataset set = read_labeled_dataset(scratch_ / "l.json", "Data");
  EXPECT_EQ(set.kind, Dataset::Kind::kCoco);
  EXPECT_EQ(rows(set), (Texts{"dog/a.jpg=dog"}));
  EXPECT_EQ(set.classes, (Texts{"cat", "dog"}));
}

TEST_F(LabelList, ClassesAreThoseOfFoldersOrNumbers) {
  EXPECT_EQ(read("l.csv", "dog/a.jpg,dog\ncat/a.jpg,cat\nother/f.jpg,Zebra\n").classes,
            (Texts{"Zebra", "cat", "dog"}));
  EXPECT_EQ(read("l.csv", "dog/a.jpg,10\ncat/a.jpg,9\n").classes, (Texts{"9", "10"}));
  scratch_.put("names", "snake\ndog\ncat\n");
  const RecordOptions named{.classes_file = scratch_ / "names"};
  EXPECT_EQ(rows(read("l.txt", "dog/a.jpg 1\ncat/a.jpg 2\nother/f.jpg 0\n", named)),
            (Texts{"dog/a.jpg=dog", "cat/a.jpg=cat", "other/f.jpg=snake"}));
  const Dataset set = read("l.txt", "dog/a.jpg dog\ncat/a.jpg cat\n", named);
  EXPECT_EQ(set.classes, (Texts{"snake", "dog", "cat"}));
  EXPECT_EQ(rows(set), two_);
}

TEST_F(LabelList, PathsLeadAnywhereAndNamesStayInOneFolder) {
  const std::string here = scratch_.path().string();
  scratch_.put("lists/l.csv", "path,label\n../dog/a.jpg,dog\n" + here + "/cat/a.jpg,cat\n");
  const Dataset set = read_dataset(scratch_ / "lists/l.csv", "Data");
  EXPECT_EQ(rows(set), two_);
  EXPECT_EQ(set.image_root(), scratch_.path() / "");
  expect_rows("l.csv", "path,label\nfile://" + here + "/dog/a.jpg,dog\ncat\\a.jpg,cat\n", two_);
  expect_rows("l.csv", "path,label\n/old/dog/a.jpg,dog\n/old/cat/a.jpg,cat\n", two_,
              {.list_roots = {{"/old/", here}}});
  scratch_.put("lists/l.csv", "path,label\ndog/a.jpg,dog\ncat/a.jpg,cat\n");
  EXPECT_EQ(rows(read_dataset(scratch_ / "lists/l.csv", "Data", {.list_roots = {{"", here}}})),
            two_);
}

TEST_F(LabelList, SetsGroupsAndWeights) {
  const std::string text =
      "path,label,split,group,weight\ndog/a.jpg,dog,train,g,2\ncat/a.jpg,cat,val,,0.5\n"
      "cat/b c.jpg,cat,test,g,1\n";
  const Dataset set = read("l.csv", text);
  ASSERT_EQ(set.samples.size(), 3U);
  EXPECT_EQ(set.samples.set(0), ListedSet::kTrain);
  EXPECT_EQ(set.samples.set(1), ListedSet::kValid);
  EXPECT_EQ(set.samples.set(2), ListedSet::kTest);
  EXPECT_EQ(set.samples.group(0), set.samples.group(2));
  EXPECT_EQ(set.samples.group(1), 0U);
  EXPECT_EQ(set.samples.weight(0), 2);
  EXPECT_EQ(set.samples.weight(1), 0.5F);
  const Dataset copy = dataset_of(to_bytes(set));
  EXPECT_EQ(copy.samples.weight(1), 0.5F);
  EXPECT_EQ(copy.image_root(), set.image_root());
  const Dataset part = part_of(set, {false, true, true});
  EXPECT_EQ(part.samples.set(1), ListedSet::kTest);
  EXPECT_EQ(part.samples.weight(0), 0.5F);
  EXPECT_EQ(rows(read("l.csv", text, {.list_sets = {"test"}})), (Texts{"cat/b c.jpg=cat"}));
  EXPECT_EQ(read("l.csv", text, {.columns = {{"split", ""}}}).samples.set(0), ListedSet::kNone);
  expect_fault("l.csv", "path,label\ndog/a.jpg,dog\n", {"--split-name"}, {.list_sets = {"test"}});
  expect_fault("l.csv", "path,label,split\ndog/a.jpg,dog,train\n", {"test", "1 image"},
               {.list_sets = {"test"}});
}

TEST_F(LabelList, AnImageHasOneLabel) {
  const Dataset set = read("l.csv", "dog/a.jpg,dog\n./dog/a.jpg,dog\ncat/a.jpg,cat\n");
  EXPECT_EQ(rows(set), two_);
  ASSERT_EQ(set.notes.size(), 1U);
  expect_fault("l.csv", "dog/a.jpg,dog\ncat/a.jpg,cat\ndog/a.jpg,cat\n",
               {"line 3", "line 1", "'dog/a.jpg'", "'cat'", "'dog'"});
  expect_fault("l.csv", "path,label,set\ndog/a.jpg,dog,train\ndog/a.jpg,dog,test\n",
               {"line 3", "line 2", "train", "test"});
}

TEST_F(LabelList, ImagesWithoutALabelAreScored) {
  const std::string text = "dog/a.jpg,dog\ncat/a.jpg,\n";
  expect_rows("l.csv", text, {"dog/a.jpg=dog", "cat/a.jpg="});
  const Dataset labeled = read_labeled_dataset(scratch_ / "l.csv", "Data");
  EXPECT_EQ(labeled.samples.size(), 1U);
  EXPECT_EQ(labeled.notes.size(), 1U);
  EXPECT_EQ(read_every_image(scratch_ / "l.csv", "Images").samples.size(), 2U);
  EXPECT_EQ(error_of([&] {
              scratch_.put("l.csv", "path\ndog/a.jpg\n");
              read_labeled_dataset(scratch_ / "l.csv", "Data");
            }).code(),
            ErrorCode::kNotLabeledDataset);
}

TEST_F(LabelList, FaultsAreToldWithTheirLines) {
  std::string many = "path,label,weight\n";
  for (int i = 0; i < 20; ++i) many += "dog/a.jpg,dog,x\n";
  expect_fault("l.csv", many, {"20 faults", "line 2:", "line 11:", "10 more"});
  expect_fault("l.csv", "a,b\n1,2\n", {"'a,b'", "--columns"});
  expect_fault("l.csv", "path,image,label\na,b,c\n", {"'path'", "'image'", "--columns path=NAME"});
  expect_fault("l.csv", "path,label\ndog/a.jpg,dog\n\"cat/a.jpg,cat\n", {"line 3"});
  expect_fault("l.csv", "path,label\ndog/a.jpg\n", {"line 2", "1 field"});
  expect_fault("l.csv", "path,label,split\ndog/a.jpg,dog,dev\n", {"line 2", "'dev'"});
  expect_fault("l.csv", "path,label\ndog/x.jpg,dog\n", {"line 2", "'dog/x.jpg'", "--list-root"});
  expect_fault("l.csv", "path,label\nhttps://x.org/a.jpg,dog\n",
               {"downloads no images", "--list-root 'https://x.org/="});
  expect_fault("l.csv", "path,label\ns3://b/a.jpg,dog\ns3://b/b.jpg,dog\n",
               {"2 paths", "--list-root 's3://b/="});
  expect_fault("l.csv", "path,label\n", {"no image"});
  expect_fault("l.csv", "path,label\nx,y\n", {"column 'z'"}, {.columns = {{"label", "z"}}});
  expect_fault("l.csv", std::string("\xff\xfep\0a\0", 6), {"UTF-16"});
  expect_fault("l.csv", "path,label\ndog/a.jpg,\xff\n", {"line 2", "UTF-8"});
  expect_fault("l.lst", "0\t1\t2\tdog/a.jpg\n", {"line 1", "several labels"});
  expect_fault("l.jsonl", "{\"path\": \"dog/a.jpg\", \"label\": [\"a\", \"b\"]}\n{x}\n",
               {"2 faults", "line 1", "several labels", "line 2"});
  expect_fault("l.manifest",
               "{\"source-ref\": \"dog/a.jpg\", \"x\": [1, 2], \"x-metadata\": {\"type\": "
               "\"groundtruth/image-classification-multilabel\"}}",
               {"line 1", "several labels", "--task multi-label"});
  expect_fault("l.json", "{\"categories\": 1}", {"COCO"});
  expect_fault("l.json",
               "{\"categories\": {\"label\": {\"labels\": [{\"name\": \"a\"}]}}, \"items\": "
               "[{\"image\": {\"path\": \"dog/a.jpg\"}, \"annotations\": "
               "[{\"type\": \"label\", \"label_id\": 0}]}]}",
               {"COCO"});
  expect_fault("l.csv", "path,label\ndog/a.jpg,dog;cat\ncat/a.jpg,cat\n",
               {"1 fault", "line 2", "'dog;cat'", "--task multi-label"});
  expect_fault("l.csv", "path,label\ndog/a.jpg,dog;cat\ncat/a.jpg,dog; owl\n",
               {"2 faults", "line 2", "line 3"});
  expect_fault("l.csv", "path,label\ndog/a.jpg,dog|cat\ncat/a.jpg,cat\n", {"line 2", "'dog|cat'"});
  expect_fault("l.csv", "path,label\ndog/a.jpg,['dog']\ncat/a.jpg,cat\n", {"line 2", "'['dog']'"});
  expect_fault(
      "l.json",
      "[{\"data\": {\"image\": \"dog/a.jpg\"}, \"annotations\": [{\"result\": [{\"value\": "
      "{\"rectanglelabels\": [\"dog\"]}}]}]}]",
      {"entry 1", "\"rectanglelabels\""});
  expect_fault("l.csv", "path,label,weight\ndog/a.jpg,dog,1\ndog/a.jpg,dog,2\n",
               {"line 3", "line 2", "weight 2"});
  expect_fault("l.csv", "path,label,group\ndog/a.jpg,dog,1\ndog/a.jpg,dog,2\n",
               {"line 3", "line 2", "another group"});
}

TEST_F(LabelList, ANameMayHaveASemicolon) {
  const std::string text = "path,label\ndog/a.jpg,\"dog; cat\"\ncat/a.jpg,owl\n";
  expect_rows("l.csv", text, {"dog/a.jpg=dog; cat", "cat/a.jpg=owl"});
  expect_rows("l.csv", text + "other/f.jpg,cat\n",
              {"dog/a.jpg=dog; cat", "cat/a.jpg=owl", "other/f.jpg=cat"},
              {.task = TaskKind::kSingleLabel});
  scratch_.put("l.jsonl", "{\"path\": \"dog/a.jpg\", \"label\": [\"dog;cat\"]}\n");
  const Error error = error_of(
      [&] { read_dataset(scratch_ / "l.jsonl", "Data", {.task = TaskKind::kMultiLabel}); });
  EXPECT_NE(error.message().find("'dog;cat'"), std::string::npos) << error.message();
}

TEST_F(LabelList, SeveralLabelsOfAnImage) {
  const RecordOptions several = {.task = TaskKind::kMultiLabel};
  const Texts expected = {"dog/a.jpg=cat;dog", "cat/a.jpg=", "other/f.jpg=dog"};
  expect_rows("l.csv", "path,label\ndog/a.jpg,dog; cat\ncat/a.jpg,\nother/f.jpg,dog\n", expected,
              several);
  expect_rows("l.csv", "path,tags\ndog/a.jpg,dog\ncat/a.jpg,\nother/f.jpg,dog\ndog/a.jpg,cat\n",
              expected, several);
  expect_rows("l.jsonl",
              "{\"path\": \"dog/a.jpg\", \"labels\": [\"dog\", \"cat\"]}\n"
              "{\"path\": \"cat/a.jpg\", \"labels\": []}\n"
              "{\"path\": \"other/f.jpg\", \"labels\": \"dog\"}\n",
              expected, several);
  const std::string metadata =
      "\"x-metadata\": {\"type\": \"groundtruth/image-classification-multilabel\", "
      "\"class-map\": {\"0\": \"cat\", \"1\": \"dog\"}}}\n";
  expect_rows("l.manifest",
              "{\"source-ref\": \"dog/a.jpg\", \"x\": [0, 1], " + metadata +
                  "{\"source-ref\": \"cat/a.jpg\", \"x\": [], " + metadata +
                  "{\"source-ref\": \"other/f.jpg\", \"x\": [1], " + metadata,
              expected, several);
  const auto task = [](const std::string& path, const std::string& results) {
    return "{\"data\": {\"image\": \"" + path + "\"}, \"annotations\": [{\"result\": [" + results +
           "]}]}\n";
  };
  expect_rows("l.jsonl",
              task("dog/a.jpg", "{\"value\": {\"choices\": [\"cat\", \"dog\"]}}") +
                  task("cat/a.jpg", "") +
                  task("other/f.jpg", "{\"value\": {\"choices\": [\"dog\"]}}"),
              expected, several);
  scratch_.put("l.json",
               "{\"images\": [{\"id\": 1, \"file_name\": \"dog/a.jpg\"}, {\"id\": 2, "
               "\"file_name\": \"cat/a.jpg\"}, {\"id\": 3, \"file_name\": \"other/f.jpg\"}], "
               "\"annotations\": [{\"image_id\": 1, \"category_id\": 1, \"bbox\": []}, "
               "{\"image_id\": 1, \"category_id\": 0}, {\"image_id\": 3, \"category_id\": 1}], "
               "\"categories\": [{\"id\": 0, \"name\": \"cat\"}, {\"id\": 1, \"name\": \"dog\"}]}");
  EXPECT_EQ(rows(read_dataset(scratch_ / "l.json", "Data", several)), expected);
}

TEST_F(LabelList, ColumnsThatMayNameSetsAreTold) {
  const auto notes = [&](const std::string& name, const std::string& text,
                         const RecordOptions& options = {}) {
    return joined(read(name, text, options).notes, "\n");
  };
  const auto table = [](const std::string& column, const std::string& first) {
    return "path,label," + column + "\ndog/a.jpg,dog," + first + "\ncat/a.jpg,cat,test\n";
  };
  EXPECT_NE(notes("l.csv", table("part", "Train")).find("--columns split=part,"),
            std::string::npos);
  EXPECT_NE(notes("l.csv", table("is_valid", "0")).find("(0, test)"), std::string::npos);
  EXPECT_NE(notes("l.jsonl",
                  "{\"path\": \"dog/a.jpg\", \"label\": \"dog\", \"is_valid\": true}\n"
                  "{\"path\": \"cat/a.jpg\", \"label\": \"cat\", \"is_valid\": false}\n")
                .find("'is_valid' (false, true)"),
            std::string::npos);
  EXPECT_EQ(notes("l.csv", table("part", "bus")), "");
  EXPECT_EQ(notes("l.csv", table("part", "test")), "");
  EXPECT_EQ(notes("l.csv", table("part", "train"), {.columns = {{"split", ""}}}), "");
  EXPECT_EQ(
      notes("l.csv", "path,label,split,part\ndog/a.jpg,dog,train,val\ncat/a.jpg,cat,train,test\n"),
      "");
}

TEST_F(LabelList, GroupsAreNumbersHoweverTheyAreWritten) {
  const Dataset set = read("l.csv",
                           "path,label,group\ndog/a.jpg,dog,17.0\ncat/a.jpg,cat,017\n"
                           "cat/b c.jpg,cat,NA\nother/f.jpg,dog,NA\n\"dog/d,e.jpg\",dog,17.5\n");
  EXPECT_EQ(set.samples.group(0), set.samples.group(1));
  EXPECT_EQ(set.samples.group(2), 0U);
  EXPECT_EQ(set.samples.group(3), 0U);
  EXPECT_NE(set.samples.group(4), set.samples.group(0));
  EXPECT_NE(joined(set.notes, "\n").find("of 2 rows"), std::string::npos);
  for (const auto& [text, number] : std::vector<std::pair<std::string, std::string>>{
           {"0", "0"}, {"00.0", "0"}, {"", ""}, {".0", ".0"}, {"1a", "1a"}, {"7.", "7"}})
    EXPECT_EQ(plain_number(text), number) << text;
}

TEST_F(LabelList, NumbersWithAZeroBehindThePointAreNumbers) {
  expect_rows("l.csv", "path,label\ndog/a.jpg,10.0\ncat/a.jpg,2.0\n",
              {"dog/a.jpg=10", "cat/a.jpg=2"});
  expect_rows("l.csv", "path,label\ndog/a.jpg,10.5\ncat/a.jpg,2.0\n",
              {"dog/a.jpg=10.5", "cat/a.jpg=2.0"});
}

TEST_F(LabelList, WithGivenNamesNumbersWithAZeroBehindThePointAreNumbersToo) {
  scratch_.put("names", "cat\ndog\n");
  const RecordOptions named{.classes_file = scratch_ / "names"};
  expect_rows("l.csv", "path,label\ndog/a.jpg,1.0\ncat/a.jpg,0.0\n", two_, named);
  scratch_.put("names", "0.0\n1.0\n");
  expect_rows("l.csv", "path,label\ndog/a.jpg,1.0\ncat/a.jpg,0.0\n",
              {"dog/a.jpg=1.0", "cat/a.jpg=0.0"}, named);
}

TEST_F(LabelList, AColumnThatIsNamedAndNotThereIsAFault) {
  const std::string object = R"({"path": "dog/a.jpg", "label": "dog", "split": "train"})";
  for (const char* key : {"group", "split", "weight", "label"}) {
    const RecordOptions options{.columns = {{key, "Nowhere"}}};
    for (const char* name : {"l.jsonl", "l.json"})
      expect_fault(name, object + "\n", {"'Nowhere'", "--columns"}, options);
    expect_fault("l.csv", "path,label,split\ndog/a.jpg,dog,train\n", {"'Nowhere'"}, options);
  }
  for (const char* column : {"5", "0", "patient"})
    expect_fault("l.csv", "1,dog/a.jpg,dog\n", {"3 columns", "'" + std::string(column) + "'"},
                 {.columns = {{"path", "2"}, {"label", "3"}, {"group", column}}});
  expect_rows("l.jsonl", object + "\n", {"dog/a.jpg=dog"}, {.columns = {{"split", ""}}});
  const Dataset plain = read("l.lst", "0\t1\tdog/a.jpg\n", {.columns = {{"group", "x"}}});
  EXPECT_NE(joined(plain.notes, "\n").find("--columns"), std::string::npos);
}

TEST_F(LabelList, AColumnOfSetsWithoutANameIsTold) {
  const Dataset set = read("l.csv", "TEST,dog/a.jpg,dog\nTRAIN,cat/a.jpg,cat\n",
                           {.columns = {{"path", "2"}, {"label", "3"}}});
  EXPECT_NE(joined(set.notes, "\n").find("--columns split=1"), std::string::npos);
}

TEST_F(LabelList, SeveralLabelsThatMayMeanOtherThings) {
  const RecordOptions several = {.task = TaskKind::kMultiLabel};
  const std::string columns = "path,Label_1,label,Label_2\ndog/a.jpg,x,dog,cat\n";
  expect_fault("l.csv", columns, {"'label' and 'Label_1'", "--columns label=NAME"}, several);
  expect_fault("l.jsonl", "{\"path\": \"dog/a.jpg\", \"label\": \"dog\", \"label2\": \"cat\"}\n",
               {"'label' and 'label2'"}, several);
  expect_rows("l.csv", columns, {"dog/a.jpg=dog"});
  expect_rows("l.csv", columns, {"dog/a.jpg=cat"},
              {.columns = {{"label", "Label_2"}}, .task = TaskKind::kMultiLabel});
  expect_fault("l.jsonl",
               "{\"path\": \"dog/a.jpg\", \"labels\": [1, 0, 1]}\n"
               "{\"path\": \"cat/a.jpg\", \"labels\": [0, 1]}\n",
               {"1 fault", "line 1", "each once"}, several);
  for (const char* mark : {",", "|"})
    expect_fault("l.csv",
                 "path,label\ndog/a.jpg,\"dog" + std::string(mark) + " cat\"\ncat/a.jpg,cat\n",
                 {"1 fault", "line 2", "';'", ".jsonl"}, several);
  expect_fault("l.csv", "path,label\ndog/a.jpg,\"{\"\"choices\"\":[\"\"dog\"\"]}\"\n",
               {"line 2", ".jsonl"}, several);
  expect_rows("l.jsonl", "{\"path\": \"dog/a.jpg\", \"labels\": [\"cat, wild\", \"cat\"]}\n",
              {"dog/a.jpg=cat;cat, wild"}, several);
}

TEST_F(LabelList, BlanksBetweenTagsAreToldOf) {
  const RecordOptions several = {.task = TaskKind::kMultiLabel};
  const std::string tags = "path,tags\ndog/a.jpg,dog\ncat/a.jpg,cat\nother/f.jpg,";
  expect_fault("l.csv", tags + "cat dog\n", {"1 fault", "line 4", "'cat dog'", "';'"}, several);
  expect_rows("l.csv", tags + "hot dog\n",
              {"dog/a.jpg=dog", "cat/a.jpg=cat", "other/f.jpg=hot dog"}, several);
  expect_rows("l.csv", tags + "cat dog;dog\n",
              {"dog/a.jpg=dog", "cat/a.jpg=cat", "other/f.jpg=cat dog;dog"}, several);
  expect_rows("l.csv", "path,label\ndog/a.jpg,dog\ncat/a.jpg,cat\nother/f.jpg,cat dog\n",
              {"dog/a.jpg=dog", "cat/a.jpg=cat", "other/f.jpg=cat dog"});
}

TEST_F(LabelList, NamesWithoutAnExtensionAreThoseOfTheOnlyImage) {
  expect_rows("l.csv", "image_id,label\ndog/a,dog\ncat/a,cat\n", two_);
  expect_rows("l.csv", "image_id,path,label\n7,dog/a,dog\n8,cat/a.jpg,cat\n", two_);
  expect_rows("l.txt", "dog/a dog\ncat/b c cat\n", {"dog/a.jpg=dog", "cat/b c.jpg=cat"});
  expect_fault("l.csv", "image_id,label\ndog/b,dog\n", {"'dog/b' is missing"});
  expect_fault("l.csv", "image_id,label\ndog/a,dog\ndog/a.jpg,cat\n", {"line 3", "line 2"});
  scratch_.put("cat/a.png", "");
  expect_fault("l.csv", "image_id,label\ncat/a,cat\n", {"line 2", "'a.jpg', 'a.png'"});
  scratch_.put("cat/a", "cat/a");
  expect_rows("l.csv", "image_id,label\ncat/a,cat\n", {"cat/a=cat"});
}

TEST_F(LabelList, NamesWithAPointAreNoNumbersOfIm2rec) {
  expect_rows("l.lst", "0\tv1.0\tdog/a.jpg\n1\tv1\tcat/a.jpg\n",
              {"dog/a.jpg=v1.0", "cat/a.jpg=v1"});
}

// What a note of the set has, or nothing.
std::string notes_of(const Dataset& set) {
  std::string all;
  for (const std::string& note : set.notes) all += note + "\n";
  return all;
}

TEST_F(LabelList, LabelsThatMayBeMissingAreNoted) {
  const auto list = [](const std::string& label) {
    return "path,label\ncat/a.jpg,cat\ncat/b c.jpg," + label + "\ndog/a.jpg," + label + "\n";
  };
  for (const std::string& word : Texts{"nan", "None", "NULL", "N/A", "<NA>", "NaT"}) {
    const std::string notes = notes_of(read("l.csv", list(word)));
    for (const std::string& part : {"'" + word + "' (2 images)", std::string("--classes")})
      EXPECT_NE(notes.find(part), std::string::npos) << part << "\n" << notes;
  }
  scratch_.put("names", "cat\nnan\n");
  EXPECT_EQ(notes_of(read("l.csv", list("nan"), {.classes_file = scratch_ / "names"})), "");
  EXPECT_EQ(notes_of(read("l.csv", list("nanny"))), "");
}

TEST_F(LabelList, ClassesThatLookAlikeAreNoted) {
  const std::string notes =
      notes_of(read("l.csv", "path,label\ncat/a.jpg,cat\ncat/b c.jpg,cat\u00a0\ndog/a.jpg,dog\n"));
  EXPECT_NE(notes.find("'cat\\u00a0'"), std::string::npos) << notes;
}

TEST_F(LabelList, ColumnsOfZeroAndOneAreClasses) {
  const std::string table =
      "filename, cat, dog,age\ndog/a.jpg, 0, 1,1\ncat/a.jpg, 1, 0,5\nother/f.jpg,0,0,1\n";
  const Texts expected = {"dog/a.jpg=dog", "cat/a.jpg=cat", "other/f.jpg="};
  expect_rows("l.csv", table, expected, {.task = TaskKind::kMultiLabel});
  expect_rows("l.csv", table, expected, {.columns = {{"label", "*"}}});
  EXPECT_NE(notes_of(read("l.csv", table)).find("--task multi-label"), std::string::npos);
  expect_rows("l.jsonl",
              "{\"path\": \"dog/a.jpg\", \"cat\": false, \"dog\": true}\n"
              "{\"path\": \"cat/a.jpg\", \"cat\": true, \"dog\": false}\n",
              two_, {.task = TaskKind::kMultiLabel});
}

TEST_F(LabelList, GivenColumnsGoBeforeUsualNames) {
  const std::string table = "path,label,split\ndog/a.jpg,a,train\ncat/a.jpg,b,x\n";
  const Dataset set = read("l.csv", table, {.columns = {{"group", "split"}}});
  EXPECT_EQ(set.samples.set(0), ListedSet::kNone);
  EXPECT_TRUE(set.samples.has_groups());
  EXPECT_EQ(read("l.csv", table, {.columns = {{"split", ""}, {"label", "split"}}}).classes,
            (Texts{"train", "x"}));
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  for (const Pairs& columns :
       {Pairs{{"path", "path"}, {"label", "path"}}, Pairs{{"label", "label"}, {"label", "path"}}})
    expect_fault("l.csv", table, {"--columns"}, {.columns = columns});
}

TEST_F(LabelList, PathsAreThoseOfFilesThatAreThere) {
  for (const char* path : {"dog\\a.jpg", "dog%2fa.jpg", "dog/%61.jpg"})
    expect_rows("l.csv", "path,label\n" + std::string(path) + ",dog\n", {"dog/a.jpg=dog"});
  scratch_.put("dog%2fa.jpg", "dog%2fa.jpg");
  expect_rows("l.csv", "path,label\ndog%2fa.jpg,dog\n", {"dog%2fa.jpg=dog"});
  expect_rows("l.csv", "path,label\nC:\\set\\dog\\a.jpg,dog\n", {"dog/a.jpg=dog"},
              {.list_roots = {{"C:/set/", scratch_.path().string()}}});
}

TEST_F(LabelList, NumbersAndOtherValuesOfJson) {
  const auto of_labels = [](const std::string& one, const std::string& other) {
    return "{\"path\": \"dog/a.jpg\", \"label\": " + one +
           "}\n{\"path\": \"cat/a.jpg\", \"label\": " + other + "}\n";
  };
  expect_rows("l.jsonl", of_labels("true", "false"), {"dog/a.jpg=true", "cat/a.jpg=false"});
  expect_rows("l.jsonl", of_labels("0.1", "0.10000000000000002"),
              {"dog/a.jpg=0.1", "cat/a.jpg=0.10000000000000002"});
  expect_fault("l.jsonl", of_labels("18446744073709551616", "18446744073709551617"), {"line 2"});
  expect_fault("l.jsonl", of_labels("[true, false]", "[false, true]"), {"line 1", "each once"},
               {.task = TaskKind::kMultiLabel});
  expect_fault("l.jsonl", of_labels("\"a\\u001f\"", "\"b\""), {"line 1"});
  expect_fault("l.csv", "path,label\ndog/a.jpg,a\x1f\n", {"line 2"});
}

TEST_F(LabelList, TextAfterAListIsRefused) {
  const std::string list = "[{\"path\": \"dog/a.jpg\", \"label\": \"]}\"}]";
  expect_rows("l.json", list + "\n", {"dog/a.jpg=]}"});
  for (const char* more : {", \"x\": []", " x", "[]"})
    expect_fault("l.json", list + more, {"after its list"});
}

TEST_F(LabelList, LinesMayEndWithACarriageReturn) {
  expect_rows("l.csv", "path,label\rdog/a.jpg,dog\rcat/a.jpg,cat\r", two_);
}

TEST_F(LabelList, AKeyTwiceIsRefused) {
  const std::string row = R"({"path": "cat/a.jpg", "label": "cat"})",
                    twice = R"({"path": "dog/a.jpg", "label": "dog", "label": "cat"})";
  expect_fault("l.jsonl", row + "\n" + twice + "\n", {"line 2", "'label' twice"});
  expect_fault("l.json", "[" + row + "," + twice + "]", {"entry 2", "'label' twice"});
}

TEST_F(LabelList, NamesDoNotDependOnTheSetsThatAreRead) {
  ScratchFolder far;
  far.put("train/a.jpg", "1");
  far.put("test/a.jpg", "2");
  const std::string list = "path,label,split\n" + (far / "train/a.jpg").string() + ",cat,train\n" +
                           (far / "test/a.jpg").string() + ",dog,test\n";
  EXPECT_EQ(rows(read("l.csv", list, {.list_sets = {"train"}})), (Texts{"train/a.jpg=cat"}));
  EXPECT_EQ(rows(read("l.csv", list, {.list_sets = {"test"}})), (Texts{"test/a.jpg=dog"}));
  EXPECT_EQ(rows(read("l.csv", list)), (Texts{"train/a.jpg=cat", "test/a.jpg=dog"}));
}

TEST_F(LabelList, PathsThroughALinkAndBackAreRefused) {
  scratch_.put("far/away/x", "");
  scratch_.put("far/a.jpg", "another");
  std::filesystem::create_directory_symlink("far/away", scratch_ / "link");
  scratch_.put("a.jpg", "a");
  expect_fault("l.csv", "path,label\nlink/../a.jpg,dog\n", {"line 2", "'link/../a.jpg'"});
  EXPECT_EQ(rows(read("l.csv", "path,label\ncat/../a.jpg,dog\n")), (Texts{"a.jpg=dog"}));
}

TEST_F(LabelList, WhatHasNoClassIsNotWhatHasNoLabel) {
  const RecordOptions several = {.task = TaskKind::kMultiLabel};
  scratch_.put("l.jsonl",
               "{\"path\": \"dog/a.jpg\", \"label\": [\"dog\"]}\n"
               "{\"path\": \"cat/a.jpg\", \"label\": \"\"}\n"
               "{\"path\": \"other/f.jpg\", \"label\": null}\n"
               "{\"path\": \"cat/b c.jpg\"}\n");
  const Dataset set = read_labeled_dataset(scratch_ / "l.jsonl", "Data", several);
  EXPECT_EQ(rows(set), (Texts{"dog/a.jpg=dog", "cat/a.jpg="}));
  EXPECT_EQ(counts_by_class(set, 1), (std::vector<long long>{1}));
  scratch_.put("v.csv", "path,label\ncat/a.jpg,dog;bird\n");
  Dataset train = read_labeled_dataset(scratch_ / "l.jsonl", "Training dataset", several);
  Dataset valid = read_labeled_dataset(scratch_ / "v.csv", "Validation dataset", several);
  const Error error = error_of([&] { decide_labels(train, valid, {}); });
  EXPECT_NE(error.message().find("'bird'"), std::string::npos) << error.message();
  // Where each image has one class by its form, so it has here.
  const Dataset folders = read_labeled_dataset(scratch_ / ".", "Data", several);
  EXPECT_EQ(folders.labels.task(), TaskKind::kMultiLabel);
  EXPECT_EQ(folders.label_text(folders.samples.label(0)), "cat");
}

}  // namespace
}  // namespace kiln
