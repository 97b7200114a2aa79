#include "commands/commands.h"

#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "model/image_model.h"
#include "store/checkpoint.h"
#include "store/model_directory.h"
#include "store/state_dict_file.h"
#include "weights/model_weights.h"

namespace kiln {
namespace {

constexpr std::string_view kPrefix = "model.";
constexpr std::string_view kStatePrefix = "model.";  // of the weights among a checkpoint's tensors

// Converts torchvision's names to ours. Files written by kiln already have the prefix.
void to_own_names(StateDict& weights) {
  rename_old_densenet_keys(weights);
  const bool own = std::any_of(weights.begin(), weights.end(), [](const StoredTensor& tensor) {
    return tensor.name.starts_with(kPrefix);
  });
  if (own) return;
  for (StoredTensor& tensor : weights) tensor.name.insert(0, kPrefix);
}

// Those of the best epoch, or else of the state; without the layer whose size depends on the data.
StateDict read_checkpoint_weights(const std::string& path) {
  std::vector<std::string> skipped;
  Checkpoint checkpoint = read_checkpoint(path, skipped);
  StateDict weights = std::move(checkpoint.best);
  if (weights.empty()) {
    for (StoredTensor& tensor : checkpoint.tensors) {
      if (!tensor.name.starts_with(kStatePrefix)) continue;
      tensor.name.erase(0, kStatePrefix.size());
      weights.push_back(std::move(tensor));
    }
  }
  std::erase_if(weights,
                [](const StoredTensor& tensor) { return !tensor.name.starts_with(kPrefix); });
  return weights;
}

StateDict read_weights(const std::string& path) {
  if (is_checkpoint(path)) return read_checkpoint_weights(path);
  try {
    StateDict weights = read_state_dict(read_state_dict_file(path));
    to_own_names(weights);
    return weights;
  } catch (const FormatFault& fault) {
    throw Error(ErrorCode::kInvalidModelDirectory,
                "The weights file '" + path + "' cannot be used: " + fault.what() +
                    ". Give a state dict published by torchvision (.pth) or a .safetensors file.");
  } catch (const std::system_error& fault) {
    throw Error(
        ErrorCode::kInvalidModelDirectory,
        std::string("The weights file cannot be read: ") + fault.what() + ". Check --weights.");
  }
}

std::unique_ptr<ImageModel> make_fresh(const InitModelConfig& config) {
  torch::manual_seed(static_cast<std::uint64_t>(config.random_seed));
  return make_image_model({.model_name = config.model_name,
                           .memory_efficient = config.memory_efficient,
                           .zero_init_residual = config.zero_init_residual});
}

void load_weights(ImageModel& model, const std::string& path) {
  StateDict weights = read_weights(path);
  add_missing_batch_counts(weights, model);
  load_tensors(model.state(), weights, path);
}

void print_result(const InitModelConfig& config, const ImageModel& model, Log& log) {
  std::int64_t num_parameters = 0;
  for (const at::Tensor& parameter : model.parameters()) num_parameters += parameter.numel();
  log.info("Model: " + config.model_name + ", " + grouped(num_parameters) +
           " parameters, 1000 classes");
  log.info(config.weights.empty()
               ? "Weights: fresh, random seed " + std::to_string(config.random_seed)
               : "Weights: " + config.weights);
  log.info("Untrained model written to " + config.untrained_model_path);
}

}  // namespace

int run(const InitModelConfig& config, Process& process) {
  const bool has_weights = !config.weights.empty();
  if (config.pretrained && !has_weights)
    throw Error(ErrorCode::kFailedToDownloadFiles,
                "--pretrained is set for " + config.model_name +
                    ", but weights are not downloaded: give their file with --weights FILE, or set "
                    "--pretrained False.");
  const std::unique_ptr<ImageModel> model = make_fresh(config);
  Problems problems;
  if (has_weights) problems.collect([&] { load_weights(*model, config.weights); });
  problems.collect([&] { prepare_model_output(config.untrained_model_path); });
  problems.throw_if_any();
  const ModelSpec spec{.model_name = config.model_name,
                       .pretrained = has_weights,
                       .memory_efficient = config.memory_efficient,
                       .zero_init_residual = config.zero_init_residual,
                       .num_classes = {},
                       .normalization = {}};
  write_directory(config.untrained_model_path, untrained_model_files(spec, to_state_dict(*model)));
  print_result(config, *model, process.log);
  return 0;
}

}  // namespace kiln
