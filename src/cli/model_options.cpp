// The options of `kiln init-model`, and those of `kiln train` that describe a network.
#include <cstddef>
#include <string_view>

#include "base/url.h"
#include "cli/command_rows.h"
#include "model/catalogue.h"

namespace kiln {
namespace {

using enum Canvas;
using enum Effect;
using enum Mark;

constexpr std::size_t kSha256Digits = 64;

std::string sha256_value(const Option& option, const std::string& text, const std::string& where) {
  std::string hash = path_value(option, text, where);
  for (char& byte : hash)
    if (byte >= 'A' && byte <= 'F') byte = static_cast<char>(byte - 'A' + 'a');
  if (hash.size() == kSha256Digits && hash.find_first_not_of("0123456789abcdef") == hash.npos)
    return hash;
  throw Error(
      ErrorCode::kParameterParsing,
      where + " is '" + text + "', but must be 64 hexadecimal digits, as sha256sum prints them.");
}

const std::string kInitialWeights =
    "Initial weights: a torchvision or timm state dict (.pth or .safetensors), a model directory, "
    "SageMaker's model.tar.gz, or a checkpoint; or the https:// URL of a file, which is downloaded "
    "once and cached in ~/.cache/kiln/weights. Of several state dicts in a file, such as "
    "state_dict and state_dict_ema, FILE#NAME takes one. ";
const std::string kZeroInitHelp =
    "ResNet only: zero-initialize the last BatchNorm of every residual branch.";
const std::string kMemoryEfficientHelp =
    "DenseNet only: recompute activations in the backward pass to save memory.";

Rows<InitModelConfig> init_model_rows() {
  using Config = InitModelConfig;
  return {
      opt(&Config::model_name, "model-name", network_name(), kModel,
          "Network architecture; the flag name may be omitted.")
          .is(kPositional, kParameter),
      opt(&Config::untrained_model_path, "untrained-model-path", path("DIR"), kPaths,
          "Output folder for the UntrainedModelDirectory.")
          .required()
          .is(kModelOut),
      opt(&Config::weights, "weights", path("FILE"), kModel,
          kInitialWeights +
              "A model keeps its classes; another last layer without 1000 outputs is not loaded.")
          .is(kFileIn),
      opt(&Config::weights_sha256, "weights-sha256", sha256(), kModel, kWeightsHashHelp),
      opt(&Config::pretrained, "pretrained", true_or_false(), kModel,
          "True requires --weights: Kiln comes with none. Default: True if --weights is given."),
      opt(&Config::zero_init_residual, "zero-init-residual", on_off(), kModel, kZeroInitHelp)
          .is(kParameter),
      opt(&Config::memory_efficient, "memory-efficient", on_off(), kModel, kMemoryEfficientHelp)
          .is(kParameter),
      seed_row<Config>(kModel, "Seed for the initial weights.").is(kParameter),
  };
}

// Whether a network allows a variant of its family. One that is unknown is already reported.
bool allows(const std::string& model_name, std::string_view variant) {
  const KnownNetwork* network = find_network(model_name);
  return network == nullptr || network->family().allows(variant);
}

void check_zero_init(Binder& binder, const std::string& model_name, bool zero_init_residual) {
  if (zero_init_residual && !allows(model_name, kZeroInitResidual))
    binder.fault("zero-init-residual", ErrorCode::kParameterParsing,
                 "--zero-init-residual applies to ResNets only, but the model is " + model_name +
                     ": leave it out.");
}

// Returns, for example, "https://…/resnet50-0676ba61.pth, or …/resnet50-11ad3fa6.pth of its newer
// recipe".
std::string published_files(const KnownNetwork& network) {
  const auto& [file, newer] = network.published;
  return weights_url(file) +
         (newer.empty() ? "" : ", or " + weights_url(newer) + " of its newer recipe");
}

void check_pretrained(Binder& binder, const InitModelConfig& config) {
  const KnownNetwork* network = find_network(config.model_name);
  if (config.pretrained == true && !binder.given("weights")) {
    binder.fault(
        "pretrained", ErrorCode::kFailedToDownloadFiles,
        "--pretrained is True, but Kiln has no default weights to download: give a file or its URL "
        "with --weights" +
            (network == nullptr ? ""
                                : " (torchvision publishes " + published_files(*network) + ")") +
            ", or set --pretrained False.");
  }
  if (binder.given("weights") && config.pretrained == false) {
    binder.fault("pretrained", ErrorCode::kParameterParsing,
                 "--pretrained is False, but --weights is given: leave one of them out.");
  }
}

void check_init_model(Binder& binder, InitModelConfig& config) {
  check_weights(binder, config.weights);
  check_weights_hash(binder);
  check_zero_init(binder, config.model_name, config.zero_init_residual);
  if (config.memory_efficient && !allows(config.model_name, kMemoryEfficient))
    binder.fault("memory-efficient", ErrorCode::kParameterParsing,
                 "--memory-efficient applies to DenseNets only, but the model is " +
                     config.model_name + ": leave it out.");
  check_pretrained(binder, config);
}

}  // namespace

const char* const kWeightsHashHelp =
    "Expected SHA-256 of the --weights file: fail if it differs. Default: the eight digits in the "
    "name of a downloaded file, if it has any.";

Reader<std::string> sha256() {
  Reader<std::string> reader = path("HEX");
  reader.parse = sha256_value;
  return reader;
}

void check_weights(Binder& binder, const std::string& weights) {
  const std::string fault = is_url(weights) ? fault_of_url(weights) : "";
  if (!fault.empty())
    binder.fault("weights", ErrorCode::kParameterParsing,
                 "--weights '" + shown_url(weights) + "' cannot be downloaded: " + fault + ".");
}

void check_weights_hash(Binder& binder) {
  if (binder.given("weights-sha256") && !binder.given("weights"))
    binder.fault("weights-sha256", ErrorCode::kParameterParsing,
                 "--weights-sha256 is the hash of a file, but --weights is not given.");
}

// All are free, because a run that resumes compares the network and its weights instead.
Rows<NetworkConfig> network_rows() {
  using Config = NetworkConfig;
  return {
      opt(&Config::model_name, "model-name", network_name(), kModel,
          "Network to train, instead of --untrained-model-path: from --weights or from scratch.")
          .is(kFree, kFirst),
      opt(&Config::weights, "weights", path("FILE"), kModel,
          kInitialWeights + "Matching tensors are loaded; other classes get a new last layer.")
          .is(kFree, kFirst),
      opt(&Config::zero_init_residual, "zero-init-residual", on_off(), kModel, kZeroInitHelp)
          .is(kFree, kOfRecipe),
  };
}

void check_network(Binder& binder, const NetworkConfig& config) {
  check_weights(binder, config.weights);
  check_zero_init(binder, config.model_name, config.zero_init_residual);
  if (binder.given("model-name")) return;
  for (const char* option : {"weights", "zero-init-residual"})
    if (binder.given(option))
      binder.fault(option, ErrorCode::kParameterParsing,
                   std::string("--") + option +
                       " needs the name of the network: give --model-name instead of "
                       "--untrained-model-path.");
}

CommandInfo init_model_command() {
  return command("init-model", "Create a DenseNet or ResNet with random or pretrained weights.",
                 "MODEL --untrained-model-path DIR [options]", init_model_rows(), check_init_model);
}

}  // namespace kiln
