#include <gtest/gtest.h>

#include "cli/options.h"
#include "cli/parse.h"
#include "model/catalogue.h"

namespace kiln {
namespace {

TEST(InitModel, TakesTheNameWithAndWithoutItsFlag) {
  for (const Words& words :
       {Words{"resnet18"}, Words{"--model-name", "resnet18"}, Words{"--model_name=ResNet18"}}) {
    const auto config = parse_as<InitModelConfig>(init_model(words));
    EXPECT_EQ(config.model_name, "resnet18");
    EXPECT_EQ(config.untrained_model_path, "u");
    EXPECT_FALSE(config.pretrained);
    EXPECT_FALSE(config.zero_init_residual);
    EXPECT_FALSE(config.memory_efficient);
    EXPECT_EQ(config.random_seed, 1);
  }
  EXPECT_NE(fault(init_model({"resnet18", "--model-name", "resnet34"})).find("given twice"),
            std::string::npos);
}

TEST(InitModel, KnowsEveryNetworkOfTheCatalogue) {
  const Option* option = find_option(*find_command("init-model"), "model-name");
  EXPECT_EQ(option->choices, network_names());
  for (const std::string& name : option->choices) {
    EXPECT_EQ(fault(init_model({name})), "no fault");
  }
}

TEST(InitModel, UnknownNetworksAreFaults) {
  ErrorCode code{};
  const std::string text = fault(init_model({"resnet81"}), &code);
  EXPECT_EQ(code, ErrorCode::kInvalidModelDirectory);
  EXPECT_EQ(exit_code(code), 1);
  EXPECT_NE(text.find("'resnet81'"), std::string::npos);
  EXPECT_NE(text.find("Did you mean 'resnet18'?"), std::string::npos) << text;
  EXPECT_NE(fault(init_model({"vgg"})).find("densenet121"), std::string::npos);
}

TEST(InitModel, SwitchesAcceptTheDesignersSpelling) {
  EXPECT_TRUE(parse_as<InitModelConfig>(init_model({"resnet18", "--zero-init-residual"}))
                  .zero_init_residual);
  EXPECT_TRUE(parse_as<InitModelConfig>(init_model({"--zero-init-residual", "resnet18"}))
                  .zero_init_residual);
  EXPECT_TRUE(parse_as<InitModelConfig>(init_model({"--zero_init_residual", "TRUE", "resnet18"}))
                  .zero_init_residual);
  EXPECT_FALSE(parse_as<InitModelConfig>(init_model({"resnet18", "--zero-init-residual=false"}))
                   .zero_init_residual);
  EXPECT_TRUE(parse_as<InitModelConfig>(init_model({"densenet121", "--memory-efficient", "True"}))
                  .memory_efficient);
  EXPECT_TRUE(parse_as<InitModelConfig>(
                  init_model({"--memory-efficient", "densenet121", "--random-seed", "3"}))
                  .memory_efficient);
}

TEST(InitModel, OtherWordsAreFaults) {
  for (const Words& words :
       {Words{"resnet18", "--zero-init-residual", "maybe"},
        Words{"resnet18", "--zero-init-residual=2"}, Words{"densenet121", "--memory-efficient="},
        Words{"resnet18", "--pretrained", "yes"}, Words{"resnet18", "--pretrained", ""}}) {
    ErrorCode code{};
    EXPECT_NE(fault(init_model(words), &code).find("must be True or False"), std::string::npos);
    EXPECT_EQ(code, ErrorCode::kParameterParsing);
  }
  EXPECT_NE(fault(init_model({"resnet18", "--pretrained"})).find("needs a value"),
            std::string::npos);
}

TEST(InitModel, FlagsOfTheOtherFamilyAreFaults) {
  ErrorCode code{};
  EXPECT_NE(fault(init_model({"densenet121", "--zero-init-residual"}), &code)
                .find("--zero-init-residual"),
            std::string::npos);
  EXPECT_EQ(exit_code(code), 2);
  EXPECT_NE(fault(init_model({"resnet18", "--memory-efficient"}), &code).find("--memory-efficient"),
            std::string::npos);
  EXPECT_EQ(exit_code(code), 2);
  EXPECT_EQ(fault(init_model({"resnet18", "--memory-efficient", "False"})), "no fault");
}

TEST(InitModel, PublishedWeightsAreThoseThatThereAre) {
  const auto told = [](const char* network, const std::string& word) {
    return fault(init_model({network, "--weights", word}));
  };
  for (const char* word : {"torchvision", "torchvision:v1", "torchvision:v2", "timm"})
    EXPECT_EQ(told("resnet50", word), "no fault") << word;
  for (const char* path : {"./torchvision", "torchvision:v3", "torchvision.pth", "timm:v1"})
    EXPECT_EQ(told("vit_s_16", path), "no fault") << path;
  EXPECT_NE(told("resnet18", "torchvision:v2").find("but of resnet50, resnet101"),
            std::string::npos);
  EXPECT_NE(told("vit_s_16", "torchvision").find("but of resnet18, resnet34"), std::string::npos);
  EXPECT_NE(told("vit_s_14", "torchvision").find("--weights https://dl.fbaipublicfiles.com/"),
            std::string::npos);
  EXPECT_NE(told("vit_s_16", "torchvision").find("are --weights timm."), std::string::npos);
  EXPECT_NE(told("densenet161", "timm").find("timm has no such weights of densenet161"),
            std::string::npos);
  EXPECT_NE(told("densenet161", "timm").find("are --weights torchvision."), std::string::npos);
}

TEST(InitModel, PretrainedNeedsWeights) {
  ErrorCode code{};
  EXPECT_NE(fault(init_model({"resnet18", "--pretrained", "True"}), &code).find("--weights"),
            std::string::npos);
  EXPECT_EQ(code, ErrorCode::kFailedToDownloadFiles);
  EXPECT_EQ(fault(init_model({"resnet18", "--pretrained=True", "--weights", "w"})), "no fault");
  EXPECT_EQ(parse_as<InitModelConfig>(init_model({"resnet18", "--weights", "w"})).weights, "w");
  fault(init_model({"resnet18", "--pretrained=False", "--weights", "w"}), &code);
  EXPECT_EQ(code, ErrorCode::kParameterParsing);
  EXPECT_EQ(fault(init_model({"resnet18", "--pretrained", "False"})), "no fault");
}

TEST(InitModel, WeightsFromAUrl) {
  const std::string hash(64, 'a'), upper(64, 'A');
  const auto config = parse_as<InitModelConfig>(init_model(
      {"resnet18", "--weights", "https://host/x.pth", "--weights-sha256", upper.c_str()}));
  EXPECT_EQ(config.weights, "https://host/x.pth");
  EXPECT_EQ(config.weights_sha256, hash);
  ErrorCode code{};
  for (const char* url : {"http://host/x.pth", "ftp://host/x.pth", "https://a:b@host/x.pth"}) {
    EXPECT_NE(fault(init_model({"resnet18", "--weights", url}), &code).find("cannot be downloaded"),
              std::string::npos);
    EXPECT_EQ(code, ErrorCode::kParameterParsing);
  }
  EXPECT_NE(
      fault(init_model({"resnet18", "--weights", "x", "--weights-sha256", "0676ba61"})).find("64"),
      std::string::npos);
  EXPECT_NE(fault(init_model({"resnet18", "--weights-sha256", hash.c_str()}))
                .find("--weights is not given"),
            std::string::npos);
}

}  // namespace
}  // namespace kiln
