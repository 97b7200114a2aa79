#include "commands/commands.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "base/url.h"
#include "fetch/resolve_weights.h"
#include "model/image_model.h"
#include "store/model_directory.h"
#include "weights/model_weights.h"
#include "weights/starting_weights.h"
#include "weights/weight_source.h"

namespace kiln {
namespace {

std::unique_ptr<ImageModel> make_fresh(const InitModelConfig& config) {
  at::manual_seed(static_cast<std::uint64_t>(config.random_seed));
  return make_image_model({.model_name = config.model_name,
                           .memory_efficient = config.memory_efficient,
                           .zero_init_residual = config.zero_init_residual});
}

// No dataset gives the classes yet, so the network has ImageNet's 1000 outputs.
std::string take_weights(const InitModelConfig& config, ImageModel& model, Log& log) {
  return load_weights(
      model, known_network(config.model_name), /*classes=*/{},
      read_weight_source(resolve_weights(config.weights, config.weights_sha256, log)));
}

void print_result(const InitModelConfig& config, const ImageModel& model, const std::string& taken,
                  Log& log) {
  std::int64_t num_parameters = 0;
  for (const at::Tensor& parameter : model.parameters()) num_parameters += parameter.numel();
  log.info("Model: " + config.model_name + ", " + grouped(num_parameters) +
           " parameters, 1000 classes");
  log.info(config.weights.empty()
               ? "Weights: fresh, random seed " + std::to_string(config.random_seed)
               : "Weights: " + taken);
  log.info("Untrained model written to " + config.untrained_model_path);
}

}  // namespace

int run(const InitModelConfig& config, Process& process) {
  const bool has_weights = !config.weights.empty();
  end_on_stop_signals();
  const std::unique_ptr<ImageModel> model = make_fresh(config);
  Problems problems;
  std::string taken;
  const auto check_output = [&] { prepare_model_output(config.untrained_model_path); };
  if (is_url(config.weights)) check_output();  // before a download, which may take long
  if (has_weights) problems.collect([&] { taken = take_weights(config, *model, process.log); });
  problems.collect(check_output);
  problems.throw_if_any();
  const ModelSpec spec{.model_name = config.model_name,
                       .pretrained = has_weights,
                       .memory_efficient = config.memory_efficient,
                       .zero_init_residual = config.zero_init_residual,
                       .num_classes = {},
                       .normalization = {}};
  write_directory(config.untrained_model_path, untrained_model_files(spec, to_state_dict(*model)));
  print_result(config, *model, taken, process.log);
  return 0;
}

}  // namespace kiln
