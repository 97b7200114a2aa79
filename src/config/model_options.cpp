// `kiln init-model`.
#include "config/binder.h"
#include "config/option_rows.h"
#include "model/catalogue.h"

namespace kiln {
namespace {

std::vector<Option> init_model_options() {
  Option model_name = {
      .name = "model-name",
      .value_name = "MODEL",
      .default_text = "",
      .unit = "",
      .group = kModel,
      .help = "Network architecture; the flag name may be omitted.",
      .kind = ValueKind::kModelName,
      .required = true,
      .positional = true,
      .choices = network_names(),
  };
  return {
      model_name,
      required_path("untrained-model-path", "DIR",
                    "Output folder for the UntrainedModelDirectory."),
      optional_path("weights", "FILE", "", kModel,
                    "Pretrained weights: a torchvision state dict (.pth), a .safetensors file or a "
                    "checkpoint, including the 1000-class head."),
      yes_or_no("pretrained", ValueKind::kBoolean, "", kModel,
                "True requires --weights, since nothing is downloaded. Default: True if --weights "
                "is given."),
      yes_or_no("zero-init-residual", ValueKind::kSwitch, "False", kModel,
                "ResNet only: zero-initialize the last BatchNorm of every residual branch."),
      yes_or_no("memory-efficient", ValueKind::kSwitch, "False", kModel,
                "DenseNet only: recompute activations in the backward pass to save memory."),
      seed(kModel, "Seed for the initial weights."),
  };
}

void check_family(Binder& binder, const InitModelConfig& config) {
  const KnownNetwork* network =
      find_network(config.model_name);  // an unknown one is already reported
  if (network == nullptr) return;
  if (config.zero_init_residual && !network->family().allows(kZeroInitResidual)) {
    binder.fault("zero-init-residual", ErrorCode::kParameterParsing,
                 "--zero-init-residual applies to ResNets only, but the model is " +
                     config.model_name + ": leave it out.");
  }
  if (config.memory_efficient && !network->family().allows(kMemoryEfficient)) {
    binder.fault("memory-efficient", ErrorCode::kParameterParsing,
                 "--memory-efficient applies to DenseNets only, but the model is " +
                     config.model_name + ": leave it out.");
  }
}

void check_pretrained(Binder& binder, bool pretrained) {
  if (pretrained && !binder.given("weights")) {
    binder.fault("pretrained", ErrorCode::kFailedToDownloadFiles,
                 "--pretrained is True, but pretrained weights are not downloaded: give the file "
                 "with --weights, or set --pretrained False.");
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
  config.zero_init_residual = binder.boolean("zero-init-residual");
  config.memory_efficient = binder.boolean("memory-efficient");
  config.random_seed = binder.integer("random-seed");
  check_family(binder, config);
  check_pretrained(binder, binder.boolean("pretrained"));
  config.pretrained = binder.given("weights");
  return config;
}

}  // namespace

CommandInfo init_model_command() {
  return {"init-model", "Create a DenseNet or ResNet with fresh or pretrained weights.",
          "MODEL --untrained-model-path DIR [options]", init_model_options(), bind_init_model};
}

}  // namespace kiln
