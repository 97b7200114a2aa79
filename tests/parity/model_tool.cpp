// Runs a Kiln network on what tests/parity/model_parity.py wrote, and writes what came out.
//
//   kiln_model_tool logits|exact|maps|step|masked MODEL IN.safetensors OUT.safetensors [cpu|cuda]
//   kiln_model_tool fresh MODEL OUT.safetensors   its initial state
//   kiln_model_tool names         every network and its family, a line each
//
// IN holds the state dict, `images` and, for maps and a step, `labels`. logits: evaluation in
// float32, OUT has `logits`, and `fused` as `kiln score` computes them. exact: in float64,
// `logits`. maps: in float32 with BatchNorm folded, OUT has `maps` of the labels' classes. step:
// one training pass in float64 that drops nothing, OUT has `logits`, `loss`, `gradient.NAME` of
// every parameter and `state.NAME` of all state. masked: with drops, whose masks are `mask.NAME`.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <string>

#include "base/files.h"
#include "base/system.h"
#include "model/catalogue.h"
#include "model/image_model.h"
#include "model/networks.h"
#include "model/weights/starting_weights.h"
#include "parallel/device/device.h"
#include "parity/tensor_files.h"
#include "store/state_dict_file.h"
#include "train/loss.h"

namespace kiln {
namespace {

using test::to_stored;
using test::to_tensor;

struct Input {
  StateDict weights;
  std::map<std::string, StoredTensor> data;
};

Input read_input(const std::string& path) {
  Input input;
  for (StoredTensor& tensor : read_safetensors(read_file(path))) {
    if (tensor.name.starts_with("model.")) {
      input.weights.push_back(std::move(tensor));
    } else {
      input.data[tensor.name] = std::move(tensor);
    }
  }
  return input;
}

std::shared_ptr<Network> network_of(const ModelOptions& options) {
  const auto* const row = std::ranges::find(
      kFamilyMakers, known_network(options.model_name).family_name, &FamilyMaker::family);
  return row->make(options, options.num_classes);
}

StateDict run_logits(ImageModel& model, const Input& input, const at::Device& device) {
  model.train(false);
  const at::NoGradGuard no_grad;
  const at::Tensor images = to_tensor(input.data.at("images"), at::kFloat).to(device);
  const at::Tensor packed = images.contiguous(at::MemoryFormat::ChannelsLast);
  const StoredTensor logits = to_stored("logits", model.forward(packed));
  model.fuse();
  const at::InferenceMode inference;
  return {logits, to_stored("fused", model.forward(packed))};
}

StateDict run_maps(ImageModel& model, const Input& input, const at::Device& device) {
  model.fold_batch_norm();
  const at::Tensor images = to_tensor(input.data.at("images"), at::kFloat).to(device);
  const at::Tensor labels = to_tensor(input.data.at("labels"), at::kLong).to(at::kInt);
  const auto* first = labels.const_data_ptr<int>();
  return {to_stored("maps", model.class_maps(images.contiguous(at::MemoryFormat::ChannelsLast),
                                             {first, first + labels.numel()}))};
}

StateDict run_exact(ImageModel& model, const Input& input, const at::Device& device) {
  model.train(false);
  const at::NoGradGuard no_grad;
  const at::Tensor images = to_tensor(input.data.at("images"), at::kDouble).to(device);
  return {to_stored("logits", model.forward(images.contiguous(at::MemoryFormat::ChannelsLast)))};
}

StateDict run_step(ImageModel& model, const Input& input, const at::Device& device) {
  const at::Tensor images = to_tensor(input.data.at("images"), at::kDouble).to(device);
  const at::Tensor labels = to_tensor(input.data.at("labels"), at::kLong).to(device);
  const at::Tensor logits = model.forward(images.contiguous(at::MemoryFormat::ChannelsLast));
  const at::Tensor loss = TrainingLoss({})(logits, labels) / static_cast<double>(labels.numel());
  loss.backward();
  StateDict output{to_stored("logits", logits), to_stored("loss", loss)};
  for (const NamedTensor& item : model.state()) {
    if (item.tensor.requires_grad())
      output.push_back(to_stored("gradient." + item.name, item.tensor.grad()));
    output.push_back(to_stored("state." + item.name, item.tensor));
  }
  return output;
}

void run(const std::string& mode, const std::string& name, const std::string& in,
         const std::string& out, DeviceChoice wish) {
  const Device chosen = choose_device(wish);  // before any other call into LibTorch
  const bool is_step = mode == "step" || mode == "masked";
  const at::Device device(chosen.is_cuda ? at::kCUDA : at::kCPU,
                          static_cast<at::DeviceIndex>(chosen.index));
  const ModelOptions options{.model_name = name, .memory_efficient = is_step};
  const std::shared_ptr<Network> network = network_of(options);
  const auto model = image_model_of(network, options);
  if (is_step || mode == "exact") model->to_float64();
  const Input input = read_input(in);
  load_tensors(model->state(), input.weights, in);
  model->prepare(device);
  if (environment("KILN_FUSED_NORM") == "1") model->fuse_norms();
  model->train(true);
  for (const auto& module : network->modules())
    if (auto* drop = module->as<Drop>(); drop != nullptr && mode == "step") drop->train(false);
  const auto work = is_step           ? run_step
                    : mode == "maps"  ? run_maps
                    : mode == "exact" ? run_exact
                                      : run_logits;
  StateDict output = work(*model, input, device);
  for (const auto& module : network->named_modules())
    if (auto* drop = module.value()->as<Drop>(); drop != nullptr && drop->mask().defined())
      output.push_back(to_stored("mask." + module.key(), drop->mask()));
  write_file_durably(out, write_safetensors(output));
}

}  // namespace
}  // namespace kiln

int main(int count, char** arguments) {
  if (count == 2 && std::string(arguments[1]) == "names") {
    for (const kiln::KnownNetwork& network : kiln::known_networks())
      std::cout << network.name << " " << network.family_name << "\n";
    return 0;
  }
  if (count == 4 && std::string(arguments[1]) == "fresh") {
    const auto model = kiln::make_image_model({.model_name = arguments[2]});
    kiln::write_file_durably(arguments[3], kiln::write_safetensors(kiln::to_state_dict(*model)));
    return 0;
  }
  const std::string mode = count == 5 || count == 6 ? arguments[1] : "";
  const std::string device = count == 6 ? arguments[5] : "cpu";
  constexpr std::array kModes{"logits", "exact", "maps", "step", "masked"};
  if (std::ranges::find(kModes, mode) == kModes.end() || (device != "cpu" && device != "cuda")) {
    std::cerr << "usage: kiln_model_tool logits|exact|maps|step|masked MODEL IN.safetensors "
                 "OUT.safetensors [cpu|cuda], or fresh MODEL OUT.safetensors, or names\n";
    return 2;
  }
  try {
    kiln::run(mode, arguments[2], arguments[3], arguments[4],
              device == "cuda" ? kiln::DeviceChoice::kCuda : kiln::DeviceChoice::kCpu);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
