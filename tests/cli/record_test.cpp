#include <gtest/gtest.h>

#include "cli/run_config.h"
#include "parse.h"

namespace kiln {
namespace {

TEST(Records, AreReadAsTheOptionsSay) {
  const RecordOptions plain = parse_as<TrainConfig>(train()).data.records;
  EXPECT_EQ(plain, RecordOptions{});
  const RecordOptions given = parse_as<TrainConfig>(train({"--classes=names.txt", "--first-label=1",
                                                           "--record-keys=label=y,image=jpeg"}))
                                  .data.records;
  EXPECT_EQ(given.classes_file, "names.txt");
  EXPECT_EQ(given.first_label, 1);
  EXPECT_EQ(given.keys.image, "jpeg");
  EXPECT_EQ(given.keys.label, "y");
  EXPECT_EQ(given.keys.text, "image/class/text");
  const auto pack = parse_as<PackConfig>({"pack", "i", "o", "--classes=c", "--format=recordio"});
  EXPECT_EQ(pack.records.classes_file, "c");
  EXPECT_EQ(pack.format, ShardFormat::kRecordIo);
  EXPECT_EQ(parse_as<PackConfig>({"pack", "i", "o"}).format, ShardFormat::kTar);
  EXPECT_EQ(parse_as<InspectConfig>({"inspect", "i", "--first-label=0"}).records.first_label, 0);
}

TEST(Records, AreOptionsOfTheDataSteps) {
  const auto split = parse_as<SplitImagesConfig>(
      {"split", "--src-path=s", "--output-path=o", "--classes=c", "--record-keys=label=y"});
  EXPECT_EQ(split.records.classes_file, "c");
  EXPECT_EQ(split.records.keys.label, "y");
  const auto apply = parse_as<TransformApplyConfig>(
      {"transform", "apply", "--mode=For training", "--input-image-transform-path=t",
       "--input-image-dir-path=i", "--output-path=o", "--first-label=1"});
  EXPECT_EQ(apply.records.first_label, 1);
  EXPECT_NE(
      fault({"split", "--src-path=s", "--output-path=o", "--record-keys=x"}).find("--record-k"),
      std::string::npos);
}

TEST(Records, UnknownKeysAreFaults) {
  for (const char* keys : {"encoded=x", "image", "image=", "image=a,,label=b"})
    EXPECT_NE(fault(train({"--record-keys", keys})).find("--record-keys"), std::string::npos)
        << keys;
  EXPECT_NE(fault(train({"--first-label=2"})).find("--first-label"), std::string::npos);
}

TEST(Lists, HaveColumnsRootsAndSets) {
  const RecordOptions given =
      parse_as<TrainConfig>(train({"--columns=path=a b,split=", "--list-root=s3://b/?d=/x,y"}))
          .data.records;
  using Pairs = decltype(given.columns);
  EXPECT_EQ(given.columns, (Pairs{{"path", "a b"}, {"split", ""}}));
  EXPECT_EQ(given.list_roots, (Pairs{{"s3://b/?d", "/x"}, {"", "y"}}));
  EXPECT_EQ(parse_as<EvaluateConfig>({"evaluate", "--trained-model-path=m", "--data-path=l.csv",
                                      "--output-path=o", "--split-name=test"})
                .prediction.records.list_sets,
            std::vector<std::string>{"test"});
  EXPECT_NE(fault(train({"--columns=image=a"})).find("--columns"), std::string::npos);
  EXPECT_NE(fault(train({"--list-root=s3://b/="})).find("--list-root"), std::string::npos);
}

}  // namespace
}  // namespace kiln
