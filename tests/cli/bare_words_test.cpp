// Paths without an option's name, and what `kiln train` chooses for them.
#include <gtest/gtest.h>

#include <map>

#include "cli/parse.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

using Options = std::map<std::string, std::string>;

class BareWords : public testing::Test {
 protected:
  BareWords() {
    for (const char* name : {"photos/a/1.jpg", "both/train/a/1.jpg", "both/val/a/2.jpg", "1.jpg"})
      folder_.put(name);
  }
  std::string path(const std::string& name) const { return folder_ / name; }

  static TrainConfig trained(Words words) {
    words.insert(words.begin(), "train");
    return parse_as<TrainConfig>(words);
  }
  // The options in effect.
  static Options options(const Words& words) {
    const OptionTexts texts = trained(words).effective_options;
    return {texts.begin(), texts.end()};
  }

  ScratchFolder folder_;
};

TEST_F(BareWords, TrainWithWhatHelps) {
  Options found = options({path("photos")});
  EXPECT_EQ(found["data-path"], path("photos"));
  EXPECT_EQ(found["model-name"], "resnet18");
  EXPECT_EQ(found["trained-model-path"], "model");
  EXPECT_EQ(found["recipe"], "modern");
  EXPECT_EQ(found["lr-schedule"], "cosine");
  EXPECT_EQ(found["time-limit"], "10min");
  EXPECT_EQ(found["auto"], "");
  found = options({path("photos"), "--weights", "resnet50.pth"});
  EXPECT_EQ(found["model-name"], "resnet50");
  EXPECT_EQ(found["recipe"], "designer");
  EXPECT_EQ(found["auto"], "True");
  EXPECT_EQ(found["time-limit"], "10min");
}

TEST_F(BareWords, LeaveWhatIsGiven) {
  Options found = options({"--epochs", "3", path("photos"), "--recipe", "designer"});
  EXPECT_EQ(found["time-limit"], "");
  EXPECT_EQ(found["learning-rate"], "0.001");
  EXPECT_EQ(options({path("photos"), "--time-limit=1h"})["time-limit"], "1h");
  EXPECT_EQ(options({path("photos"), "--image-size=64:128"})["time-limit"], "");
  EXPECT_EQ(options({path("photos"), "--weights=w", "--freeze=backbone"})["auto"], "");
  found = options({"--data-path", path("photos")});
  EXPECT_EQ(found["model-name"], "resnet18");
  EXPECT_EQ(found["recipe"], "designer");
  EXPECT_EQ(found["time-limit"], "");
}

TEST_F(BareWords, StandForTwoFoldersWhereThereAreTwo) {
  for (const Words& words : {Words{path("both")}, Words{path("both/train"), path("both/val")},
                             Words{"--data-path", path("both")},
                             Words{path("both/train"), "--valid-data-path", path("both/val")}}) {
    Options found = options(words);
    EXPECT_EQ(found["data-path"], "");
    EXPECT_EQ(found["train-data-path"], path("both/train"));
    EXPECT_EQ(found["valid-data-path"], path("both/val"));
  }
}

TEST_F(BareWords, SayWhatWasChosen) {
  EXPECT_EQ(trained({path("photos")}).notes.size(), 3U);
  EXPECT_NE(trained({path("photos"), "--model-name=resnet50"})
                .notes.back()
                .find("--weights https://download.pytorch.org/models/resnet50-0676ba61.pth"),
            std::string::npos);
  EXPECT_EQ(trained({"--data-path", path("photos")}).notes.size(), 1U);
  EXPECT_TRUE(parse_as<TrainConfig>(train()).notes.empty());
}

TEST_F(BareWords, OfNothingAreFaults) {
  for (const Words& words :
       {Words{"train", path("phots")}, Words{"score", path("2.jpg")},
        Words{"train", path("photos"), path("both"), path("1.jpg")},
        Words{"train", "--train-data-path=t", "--valid-data-path=v", "photos"}})
    EXPECT_EQ(faults(words).size(), 1U) << words[1];
  EXPECT_NE(fault({"train", path("phots")}).find("photos'?"), std::string::npos);
}

TEST_F(BareWords, AreImagesForOtherCommands) {
  const auto score = parse_as<ScoreConfig>({"score", path("1.jpg")});
  EXPECT_EQ(score.trained_model_path, "model");
  EXPECT_EQ(score.data_path, path("1.jpg"));
  const Words two = {path("1.jpg"), path("photos/a/1.jpg")};
  EXPECT_EQ(parse_as<ScoreConfig>({"score", two[0], two[1]}).data_paths, two);
  EXPECT_EQ(faults({"score", two[0], two[1], "--files-from=l"}).size(), 1U);
  EXPECT_EQ(parse_as<EvaluateConfig>({"evaluate", "d"}).output_path, "evaluation");
  EXPECT_EQ(parse_as<AuditConfig>({"audit", "d", "--weights=resnet34.pth"}).model_name, "resnet34");
  EXPECT_EQ(parse_as<AuditConfig>({"audit", "d", "--weights=w"}).output_path, "audit");
  EXPECT_EQ(parse_as<SplitImagesConfig>({"split", "d"}).part_paths,
            (Words{"split/train", "split/test"}));
  EXPECT_EQ(parse_as<TransformApplyConfig>({"transform", "apply", "d", "--mode=For training",
                                            "--input-image-transform-path=t", "--output-path=o"})
                .image_path,
            "d");
}

TEST_F(BareWords, OfOtherProgramsAreAnsweredWithTheLine) {
  EXPECT_EQ(fault({"predict", "--model", "model", "--source", "a b.jpg"}),
            "'predict' is not a command of kiln: type `kiln score --trained-model-path model 'a "
            "b.jpg'`.");
  EXPECT_EQ(fault({"train", "data=" + path("photos"), "epochs=3", "model=yolo11n-cls.pt"}),
            "'data=" + path("photos") +
                "', 'epochs=3', 'model=yolo11n-cls.pt' are another program's: type `kiln train " +
                path("photos") + " --epochs 3`.");
  EXPECT_EQ(fault({"train", path("photos"), "--pretrained", "--arch", "resnet50", "--imgsz=64"}),
            "--pretrained, --arch, --imgsz are another program's: type `kiln train " +
                path("photos") +
                " --weights https://download.pytorch.org/models/resnet50-0676ba61.pth --model-name "
                "resnet50 --image-size 64`.");
  EXPECT_NE(fault({path("photos")}).find("`kiln train " + path("photos") + "`"), std::string::npos);
  for (const char* word : {"fit", "serve"})
    EXPECT_NE(fault({word}).find("`kiln "), std::string::npos) << word;
}

}  // namespace
}  // namespace kiln
