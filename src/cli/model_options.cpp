// The options of `kiln init-model`, and those of `kiln train` that describe a network.
#include "cli/binder.h"
#include "cli/option_rows.h"
#include "model/catalogue.h"

namespace kiln {
namespace {

Option weights(const std::string& last_layer) {
  return optional_path(
      "weights", "FILE", "", kModel,
      "Initial weights: a torchvision or timm state dict (.pth or .safetensors), a model "
      "directory, SageMaker's model.tar.gz, or a checkpoint; or the https:// URL of a file, which "
      "is downloaded once and cached in ~/.cache/kiln/weights. Of several state dicts in a file, "
      "such as state_dict and state_dict_ema, FILE#NAME takes one. " +
          last_layer);
}

Option zero_init_residual() {
  return yes_or_no("zero-init-residual", ValueKind::kSwitch, "False", kModel,
                   "ResNet only: zero-initialize the last BatchNorm of every residual branch.");
}

Option memory_efficient() {
  return yes_or_no("memory-efficient", ValueKind::kSwitch, "False", kModel,
                   "DenseNet only: recompute activations in the backward pass to save memory.");
}

std::vector<Option> init_model_options() {
  Option name = network_name("Network architecture; the flag name may be omitted.");
  name.required = true;
  name.positional = true;
  return {
      name,
      required_path("untrained-model-path", "DIR",
                    "Output folder for the UntrainedModelDirectory."),
      weights("A model keeps its classes; another last layer without 1000 outputs is not loaded."),
      weights_sha256(),
      yes_or_no(
          "pretrained", ValueKind::kBoolean, "", kModel,
          "True requires --weights: Kiln comes with none. Default: True if --weights is given."),
      zero_init_residual(),
      memory_efficient(),
      seed(kModel, "Seed for the initial weights."),
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

void check_pretrained(Binder& binder, const std::string& model_name, bool pretrained) {
  const KnownNetwork* network = find_network(model_name);
  if (pretrained && !binder.given("weights")) {
    binder.fault(
        "pretrained", ErrorCode::kFailedToDownloadFiles,
        "--pretrained is True, but Kiln has no default weights to download: give a file or its URL "
        "with --weights" +
            (network == nullptr ? ""
                                : " (torchvision publishes " + published_files(*network) + ")") +
            ", or set --pretrained False.");
  }
  if (binder.given("weights") && binder.given("pretrained") && !pretrained) {
    binder.fault("pretrained", ErrorCode::kParameterParsing,
                 "--pretrained is False, but --weights is given: leave one of them out.");
  }
}

Command bind_init_model(Binder& binder) {
  InitModelConfig config;
  config.model_name = binder.choice("model-name");
  config.untrained_model_path = binder.path("untrained-model-path");
  config.weights = binder.path("weights");
  config.weights_sha256 = bind_weights_sha256(binder, config.weights);
  config.zero_init_residual = binder.boolean("zero-init-residual");
  config.memory_efficient = binder.boolean("memory-efficient");
  config.random_seed = binder.integer("random-seed");
  check_zero_init(binder, config.model_name, config.zero_init_residual);
  if (config.memory_efficient && !allows(config.model_name, kMemoryEfficient))
    binder.fault("memory-efficient", ErrorCode::kParameterParsing,
                 "--memory-efficient applies to DenseNets only, but the model is " +
                     config.model_name + ": leave it out.");
  check_pretrained(binder, config.model_name, binder.boolean("pretrained"));
  config.pretrained = binder.given("weights");
  return config;
}

}  // namespace

std::vector<TrainOption> network_options() {
  Option name = network_name(
      "Network to train, instead of --untrained-model-path: from --weights or from scratch.");
  // All are kFree, because a run that resumes compares the network and its weights instead.
  return {
      {Effect::kFree, name},
      {Effect::kFree, weights("Matching tensors are loaded; other classes get a new last layer.")},
      {Effect::kFree, zero_init_residual()},
  };
}

NetworkConfig bind_network(Binder& binder) {
  NetworkConfig config;
  config.model_name = binder.choice("model-name");
  config.weights = binder.path("weights");
  check_weights_url(binder, config.weights);
  config.zero_init_residual = binder.boolean("zero-init-residual");
  check_zero_init(binder, config.model_name, config.zero_init_residual);
  if (!config.model_name.empty() || binder.given("model-name")) return config;
  for (const char* option : {"weights", "zero-init-residual"})
    if (binder.given(option))
      binder.fault(option, ErrorCode::kParameterParsing,
                   std::string("--") + option +
                       " needs the name of the network: give --model-name instead of "
                       "--untrained-model-path.");
  return config;
}

CommandInfo init_model_command() {
  return {"init-model", "Create a DenseNet or ResNet with random or pretrained weights.",
          "MODEL --untrained-model-path DIR [options]", init_model_options(), bind_init_model};
}

}  // namespace kiln
