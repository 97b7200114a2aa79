// Paths without an option's name, and what `kiln train` chooses for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

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
    const OptionTexts texts = trained(words).settings.texts();
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
  EXPECT_EQ(found["batch-size"], "auto");
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
  EXPECT_EQ(options({path("photos"), "--batch-size=8"})["batch-size"], "8");
  for (const char* decided :
       {"--freeze=backbone", "--epochs=3", "--learning-rate=0.1", "--augment=flip", "--steps=9"})
    EXPECT_EQ(options({path("photos"), "--weights=w", decided})["auto"], "") << decided;
  found = options({"--data-path", path("photos")});
  EXPECT_EQ(found["model-name"], "resnet18");
  EXPECT_EQ(found["recipe"], "designer");
  EXPECT_EQ(found["time-limit"], "");
  EXPECT_EQ(found["batch-size"], "16");
}

TEST_F(BareWords, NetworkIsThatOfWeightsOrDecidedLater) {
  EXPECT_EQ(options({path("photos"), "--model-name", "auto"})["model-name"], "auto");
  const TrainConfig config =
      trained({path("photos"), "--model-name", "auto", "--weights", "convnext_tiny-1.pth"});
  EXPECT_EQ(config.data.network.model_name, "convnext_tiny");
  EXPECT_NE(first_lines(config.settings).back().find("convnext_tiny, by the name of --weights"),
            std::string::npos);
  EXPECT_EQ(options({path("photos"), "--model-name=auto", "--weights=torchvision"})["model-name"],
            "auto");
  for (const auto& [file, network] :
       {std::pair{"efficientnet_b0_rwightman-7f5810bc.pth", "efficientnet_b0"},
        {"dinov2_vits14_pretrain.pth", "vit_s_14"},
        {"resnext50_32x4d-1a0047aa.pth", "resnext50_32x4d"},
        {"wide_resnet50_2.pth", "wide_resnet50_2"},
        {"vit_small_patch16_224.safetensors", "vit_s_16"},
        {"torchvision", "resnet18"},
        {"resnet50d.pth", "resnet18"}})
    EXPECT_EQ(options({path("photos"), "--weights", file})["model-name"], network) << file;
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

TEST_F(BareWords, AreNotSplitWhereThereAreTwo) {
  for (const char* option : {"--labels=l.csv", "--valid-fraction=0.1", "--split=s.csv"}) {
    const std::string text = fault({"train", "--data-path", path("both"), option});
    EXPECT_NE(text.find("--data-path " + path("both/train")), text.npos) << text;
  }
}

TEST_F(BareWords, SayWhatIsLeftOutBesideTwoFolders) {
  const auto notes = [&] { return first_lines(trained({"--data-path", path("both")}).settings); };
  for (const std::string& note : notes()) EXPECT_EQ(note.find("left out:"), note.npos) << note;
  folder_.put("both/test/a/3.jpg");
  EXPECT_NE(notes().front().find("'test'"), std::string::npos);
}

TEST_F(BareWords, SayWhatWasChosen) {
  EXPECT_EQ(first_lines(trained({path("photos")}).settings).size(), 2U);
  EXPECT_EQ(first_lines(trained({"--data-path", path("photos")}).settings).size(), 1U);
  EXPECT_TRUE(first_lines(parse_as<TrainConfig>(train()).settings).empty());
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
                path("photos") + " --weights torchvision --model-name resnet50 --image-size 64`.");
  EXPECT_NE(fault({"train", path("photos"), "--fp16", "--freeze", "10"})
                .find("--precision auto`. Kiln has nothing like --freeze 10."),
            std::string::npos);
  EXPECT_NE(fault({path("photos")}).find("`kiln train " + path("photos") + "`"), std::string::npos);
  EXPECT_NE(fault({"fit"}).find("`kiln train`"), std::string::npos);
}

// The line in backticks in a message, as words.
Words line_in(const std::string& message) {
  const std::size_t begin = message.find("`kiln ");
  std::istringstream in(message.substr(begin + 6, message.find('`', begin + 1) - begin - 6));
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

TEST_F(BareWords, OfOtherProgramsBecomeALineThatParses) {
  const std::string lines =
      "--lr 0.1|lr0=0.1|--lr|-b 8|-b8|-j 4|-a resnet50|-e 3|-v|-p 5|-o out|--seed 1|--warmup 2|"
      "--early-stopping|--early-stopping 5|--model-ema|--img-size 64|--sync-bn|--amp|--fp16|"
      "--gpu 0|--gpus 2|--gpus|--model resnet34|--model m|--checkpoint m|--weights m|--pretrained|"
      "--valid-pct 0.3|--val-split validation|--val-split 0.1|time=1|--opt sgd|--opt rmsprop|"
      "--wd 0.1|--clip-grad 1|--sched cosine|--lr-scheduler cosineannealinglr|--cos-lr|"
      "--smoothing 0.1|--mixup-alpha 0.2|--no-aug|--hflip 0.5|--scale 0.08 1.0|--reprob 0.25|"
      "--reprob 0|--aa rand-m9|--color-jitter 0.4|--mean 0.5 0.5 0.5|--mean 1 2 "
      "3|--norm-weight-decay 1e-5|--conf 0.5|--topk 2|"
      "--output out|--output-dir out|--save-dir out|--project out|--name n|--num-classes 4|"
      "--train-split train|--drop 0.1|--drop-path 0.1|--dropout 0.1|--lrf 0.1|--channels-last|"
      "--test-only|--log-dir l|batch=-1|val=True|--lr 0.1 --lr0 0.2|--num_train_epochs 3|"
      "--per_device_train_batch_size 4|--report-to wandb|--cuda|--cpu|--save-period 1|--dry-run|"
      "--quiet|--wandb|--fine-tune|--list-models";
  std::istringstream in(lines);
  for (const char* command : {"train", "score", "evaluate", "audit"}) {
    in.clear();
    in.seekg(0);
    for (std::string line; std::getline(in, line, '|');) {
      Words words = {command, path("photos")};
      std::istringstream more(line);
      for (std::string word; more >> word;) words.push_back(word);
      const std::string answer = fault(words);
      if (answer.find("another program's") == answer.npos) continue;
      const Words typed = line_in(answer);
      EXPECT_EQ(typed.front(), command);
      EXPECT_EQ(std::ranges::count(typed, path("photos")), 1) << answer;
      const std::string after = fault(typed);
      EXPECT_TRUE(after == "no fault" || after.starts_with("No pretrained network")) << after;
    }
  }
}

TEST_F(BareWords, OfOtherProgramsKeepTheirNumbers) {
  const auto line = [&](Words words) {
    words.insert(words.begin(), {"train", path("photos")});
    return line_in(fault(words));
  };
  const Words half = {"train", path("photos"), "--normalization", "half"};
  EXPECT_EQ(line({"--mean", "0.5", "0.5", "0.5", "--std", "0.5", "0.5", "0.5"}), half);
  EXPECT_EQ(line({"--mean=0.485,0.456,0.406", "--std", "0.229", "0.224", "0.225"}).back(),
            "imagenet");
  EXPECT_EQ(line({"--mean", "0.1", "0.2", "0.3"}), (Words{"train", path("photos")}));
  EXPECT_EQ(line({"--norm-weight-decay", "0"}).back(), "norm-and-bias");
  EXPECT_EQ(line({"--norm-weight-decay", "1e-5"}), (Words{"train", path("photos")}));
}

TEST_F(BareWords, OfOtherProgramsMeanWhatTheCommandHas) {
  for (const char* command : {"score", "evaluate", "audit"}) {
    EXPECT_EQ(line_in(fault({command, path("both"), "--output", "o"})),
              (Words{command, path("both"), "--output-path", "o"}));
    if (std::string(command) != "audit") {
      EXPECT_EQ(line_in(fault({command, path("both"), "--weights", "m"})),
                (Words{command, path("both"), "--trained-model-path", "m"}));
    }
    EXPECT_EQ(line_in(fault({command, path("both"), "--model", "m"}))[2], "--trained-model-path");
  }
  EXPECT_EQ(line_in(fault({"pack", "--out", "o", "--data", "d"})),
            (Words{"pack", "--output-path", "o", "d"}));
  EXPECT_EQ(line_in(fault({"train", path("photos"), "--data", path("photos")})),
            (Words{"train", path("photos")}));
  EXPECT_EQ(line_in(fault({"train", path("photos"), "--reprob", "0.2", "--early-stopping"})),
            (Words{"train", path("photos"), "--augment", "strong", "--patience", "3"}));
  EXPECT_NE(fault({"train", path("photos"), "--drop-path", "0.1"}).find("nothing like --drop-path"),
            std::string::npos);
  EXPECT_NE(fault({"train", path("photos"), "-z"}).find("'-z' is not an option"),
            std::string::npos);
}

TEST_F(BareWords, OfOtherProgramsMayBeCommands) {
  const Words line = {"train", path("photos"), "--model-name", "resnet18", "--epochs", "1"};
  for (const Words& before :
       {Words{"classify", "train"}, Words{"yolo", "train"}, Words{"yolo", "classify", "train"},
        Words{"fine-tune"}, Words{"fine_tune"}}) {
    Words words = before;
    words.insert(words.end(), {"data=" + path("photos"), "model=resnet18", "epochs=1"});
    EXPECT_EQ(line_in(fault(words)), line) << before.front();
  }
}

TEST_F(BareWords, AreNotAskedForWhereTheyHaveADefault) {
  EXPECT_EQ(parse_as<ReportConfig>({"report"}).log_path, "logs");
  EXPECT_EQ(parse_as<ReportConfig>({"report", "not-yet"}).log_path, "not-yet");
  EXPECT_EQ(parse_as<SplitImagesConfig>({"split", "d"}).output_path, "split");
  EXPECT_NE(fault({"split", "d", "--tgt-train-path=a"}).find("--tgt-test-path"), std::string::npos);
  EXPECT_NE(fault({"train", "--resume"}).find("--resume needs a value"), std::string::npos);
  EXPECT_NE(fault({"score", "no.jpg"}).find("'no.jpg' does not exist"), std::string::npos);
}

}  // namespace
}  // namespace kiln
