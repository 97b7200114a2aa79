#include "tools/commands.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "base/url.h"
#include "data/dataset/dataset.h"
#include "model/catalogue.h"
#include "model/image_model.h"
#include "model/weights/fetch_file.h"
#include "model/weights/starting_weights.h"
#include "model/weights/weight_source.h"
#include "parallel/processors/processors.h"
#include "store/model_directory.h"

namespace kiln {
namespace {

// A model keeps its classes. Without names of classes, no dataset gives any yet, so the network has
// ImageNet's 1000 outputs.
ModelSpec spec_of(const InitModelConfig& config, const std::optional<WeightSource>& source) {
  ModelSpec spec{.model_name = config.model_name,
                 .pretrained = source.has_value(),
                 .memory_efficient = config.memory_efficient,
                 .zero_init_residual = config.zero_init_residual};
  if (!source) return spec;
  spec.normalization = source->normalization;
  if (source->classes.empty()) return spec;
  spec.pretrained = false;  // has one last layer
  spec.num_classes = static_cast<int>(source->classes.size());
  return spec;
}

void print_result(const InitModelConfig& config, const ModelSpec& spec, const ImageModel& model,
                  const std::string& taken, Log& log) {
  std::int64_t num_parameters = 0;
  for (const at::Tensor& parameter : model.parameters()) num_parameters += parameter.numel();
  log.info("Model: " + config.model_name + ", " + grouped(num_parameters) + " parameters, " +
           plural(spec.num_classes.value_or(ModelOptions().num_classes), "class", "classes") +
           "; training takes the classes of its images");
  log.info(config.weights.empty()
               ? "Weights: fresh, random seed " + std::to_string(config.random_seed)
               : "Weights: " + taken);
  log.info("Untrained model written to " + config.untrained_model_path);
}

}  // namespace

int run(const InitModelConfig& config, Process& process) {
  end_on_stop_signals();
  use_compute_threads(usable_cpus());
  at::manual_seed(static_cast<std::uint64_t>(config.random_seed));
  Problems problems;
  ModelSpec spec;
  std::vector<std::string> classes;
  std::optional<SeenImages> seen;
  std::unique_ptr<ImageModel> model;
  std::string taken;
  std::optional<OutputFolder> folder;
  const auto take_output = [&] {
    if (!folder) folder.emplace(prepare_model_output(config.untrained_model_path));
  };
  if (is_url(config.weights) || names_published(config.weights))
    take_output();  // before a download, which may take long
  problems.collect([&] {
    std::optional<WeightSource> source;
    if (!config.weights.empty())
      source = read_weight_source(
          resolve_weights(config.weights, config.weights_sha256, config.model_name, process.log),
          config.model_name);
    spec = spec_of(config, source);
    model = make_image_model({.model_name = config.model_name,
                              .num_classes = spec.num_classes.value_or(ModelOptions().num_classes),
                              .memory_efficient = config.memory_efficient,
                              .zero_init_residual = config.zero_init_residual});
    if (!source) return;
    if (config.zero_init_residual)
      process.log.warning(without_effect({"--zero-init-residual"}, "--weights sets these, too"));
    classes = source->classes;
    seen = std::move(source->seen);
    taken = load_weights(*model, config.model_name, classes, std::move(*source));
  });
  problems.collect(take_output);
  problems.throw_if_any();
  std::vector<OutputFile> files = untrained_model_files(spec, to_state_dict(*model), classes);
  if (seen)  // _meta.yaml stays last
    files.insert(files.end() - 1,
                 OutputFile{std::string(kSeenImagesFile), pack_seen_images(*seen)});
  write_directory(*folder, files);
  print_result(config, spec, *model, taken, process.log);
  return 0;
}

}  // namespace kiln
