// `kiln train`: the network by its name, in place of a directory.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/parse.h"

namespace kiln {
namespace {

Words named(const Words& more = {}) {
  Words words = {"train", "--train-data-path",    "t", "--valid-data-path",
                 "v",     "--trained-model-path", "o"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Network, IsNamedInPlaceOfADirectory) {
  const auto network = parse_as<TrainConfig>(named({"--model-name", "ResNet18"})).data.network;
  EXPECT_EQ(network.model_name, "resnet18");
  EXPECT_EQ(network.weights, "");
  const auto given =
      parse_as<TrainConfig>(named({"--model-name", "resnet18", "--weights", "w"})).data.network;
  EXPECT_EQ(given.weights, "w");
}

TEST(Network, IsNamedOnce) {
  EXPECT_EQ(fault(train({"--model-name", "resnet18"})),
            "--untrained-model-path and --model-name are both given, but mean the same thing: "
            "use only one of them.");
}

TEST(Network, HasTheNameInItsWeightsUnlessItIsGiven) {
  const auto name = [](const Words& more) {
    return parse_as<TrainConfig>(named(more)).data.network.model_name;
  };
  EXPECT_EQ(name({}), "resnet18");
  EXPECT_EQ(name({"--weights", "https://host/models/resnet50-0676ba61.pth"}), "resnet50");
  EXPECT_EQ(name({"--weights", "my/best.pth"}), "resnet18");
  EXPECT_EQ(name({"--weights", "resnet50.pth", "--model-name", "resnet34"}), "resnet34");
  EXPECT_EQ(parse_as<TrainConfig>(train()).data.network.model_name, "");
}

TEST(Network, IsThatOfAModelDirectory) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "kiln-network-test";
  fs::create_directories(folder);
  std::ofstream(folder / "model_spec.yaml") << "a:\n  b:\n    model_name: resnet34\n";
  for (const fs::path& weights : {folder, folder / "model.safetensors"})
    EXPECT_EQ(parse_as<TrainConfig>(named({"--weights", weights.string()})).data.network.model_name,
              "resnet34");
  fs::remove_all(folder);
}

TEST(Network, ItsWeightsNeedItsName) {
  EXPECT_TRUE(
      contains(fault(train({"--weights", "w"})), "--weights needs the name of the network"));
  EXPECT_TRUE(contains(fault(named({"--model-name", "resnet81"})), "Did you mean 'resnet18'?"));
}

TEST(Network, TheOutputIsApartFromTheWeights) {
  EXPECT_TRUE(contains(fault(named({"--model-name", "resnet18", "--weights", "o/model"})),
                       "contains --weights 'o/model'"));
  EXPECT_EQ(fault(named({"--model-name", "resnet18", "--weights", "p/model"})), "no fault");
}

}  // namespace
}  // namespace kiln
