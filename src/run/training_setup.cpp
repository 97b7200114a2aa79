#include "run/training_setup.h"

#include <torch/torch.h>

#include <algorithm>

#include "base/error.h"
#include "run/model_weights.h"
#include "run/rank_agreement.h"

namespace kiln {
namespace {

// Stored weights when they are worth something, else fresh ones from the seed.
std::unique_ptr<ImageModel> build_model(const TrainConfig& config, const TrainingInputs& inputs,
                                        const Device& device) {
  const ModelSpec& spec = inputs.untrained.spec;
  torch::manual_seed(static_cast<std::uint64_t>(config.optimization.random_seed));
  auto model = make_image_model({.model_name = spec.model_name,
                                 .num_classes = static_cast<int>(inputs.train.classes.size()),
                                 .with_output_layer = spec.pretrained,
                                 .memory_efficient = spec.memory_efficient,
                                 .zero_init_residual = spec.zero_init_residual});
  const std::string where = config.data.untrained_model_path + "/" + spec.model_file;
  if (spec.pretrained)
    load_pretrained(*model, inputs.untrained.state, where);
  else
    check_untrained(*model, known_network(spec.model_name), inputs.untrained.state, where);
  model->prepare(torch_device(device));
  return model;
}

// The paths that this rank is to read itself.
TrainConfig own_part(const TrainConfig& config, bool reads_images) {
  TrainConfig part = config;
  if (!reads_images) {
    part.data.train_path.clear();
    part.data.valid_path.clear();
  }
  return part;
}

void check_sync_batch_norm(const TrainConfig& config, const TrainingInputs& inputs) {
  if (config.ranks.sync_batch_norm && inputs.untrained.spec.memory_efficient)
    throw Error(ErrorCode::kUserError,
                "--sync-batch-norm cannot be used with a memory-efficient DenseNet, whose "
                "recomputation knows the own batch only: make the model without "
                "--memory-efficient, or leave --sync-batch-norm out.");
}

}  // namespace

at::Device torch_device(const Device& device) {
  return device.is_cuda ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index))
                        : at::Device(at::kCPU);
}

TrainingSetup set_up_training(const TrainConfig& config, World& world) {
  TrainingSetup setup;
  world.enter("starting", /*patient=*/true);
  world.agree([&] { setup.device = choose_device(config.ranks.device, world.local_rank()); });
  setup.num_processors = processors_of_this_rank(world);
  at::set_num_threads(config.ranks.threads > 0 ? config.ranks.threads : setup.num_processors);
  require_one_job(world, config, setup.device);

  world.enter("reading the data", /*patient=*/true);
  const bool reads_images = world.leads() || config.data.scan_each;
  TrainingInputs& inputs = setup.inputs;
  world.agree([&] {
    Problems problems;
    inputs = read_training_inputs(own_part(config, reads_images), problems);
    if (reads_images && problems.empty()) problems.collect([&] { choose_pixels(config, inputs); });
    if (reads_images && problems.empty() && !config.data.has_train_shard)
      problems.collect([&] { setup.model = build_model(config, inputs, setup.device); });
    problems.collect(
        [&] { check_batch_size(config, inputs, config.data.has_train_shard ? 1 : world.size()); });
    problems.collect([&] { check_sync_batch_norm(config, inputs); });
    if (world.leads())
      problems.collect([&] { prepare_model_output(config.output.trained_model_path); });
    problems.throw_if_any();
  });
  share_image_sets(world, config, inputs);
  divide_images(world, config, inputs);
  world.agree([&] {
    if (!setup.model) setup.model = build_model(config, inputs, setup.device);
  });
  return setup;
}

}  // namespace kiln
