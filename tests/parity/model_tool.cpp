// Runs a Kiln network on what tests/parity/model_parity.py wrote, and writes what came out.
//
//   kiln_model_tool logits|step MODEL IN.safetensors OUT.safetensors
//   kiln_model_tool names         every network that there is, a line each
//
// IN holds the state dict, `images` and, for a step, `labels`. logits: evaluation in float32, OUT
// has `logits`. step: one training pass in float64, OUT has `logits`, `loss`, `gradient.NAME` of
// every parameter and `state.NAME` of all state.
#include <torch/torch.h>

#include <iostream>
#include <map>
#include <string>

#include "base/files.h"
#include "model/catalogue.h"
#include "model/image_model.h"
#include "parity/tensor_files.h"
#include "run/model_weights.h"
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

StateDict run_logits(ImageModel& model, const Input& input) {
  model.train(false);
  const at::NoGradGuard no_grad;
  const at::Tensor images = to_tensor(input.data.at("images"), at::kFloat);
  return {to_stored("logits", model.forward(images.contiguous(at::MemoryFormat::ChannelsLast)))};
}

StateDict run_step(ImageModel& model, const Input& input) {
  model.train(true);
  const at::Tensor images = to_tensor(input.data.at("images"), at::kDouble);
  const at::Tensor labels = to_tensor(input.data.at("labels"), at::kLong);
  const at::Tensor logits = model.forward(images.contiguous(at::MemoryFormat::ChannelsLast));
  const at::Tensor loss =
      find_training_loss({})(logits, labels) / static_cast<double>(labels.numel());
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
         const std::string& out) {
  const bool is_step = mode == "step";
  const auto model = make_image_model({.model_name = name, .memory_efficient = is_step});
  if (is_step) model->to_float64();
  const Input input = read_input(in);
  load_tensors(model->state(), input.weights, in);
  model->prepare(at::kCPU);
  write_file_durably(
      out, write_safetensors(is_step ? run_step(*model, input) : run_logits(*model, input)));
}

}  // namespace
}  // namespace kiln

int main(int count, char** arguments) {
  if (count == 2 && std::string(arguments[1]) == "names") {
    for (const std::string& name : kiln::network_names()) std::cout << name << "\n";
    return 0;
  }
  const std::string mode = count == 5 ? arguments[1] : "";
  if (mode != "logits" && mode != "step") {
    std::cerr
        << "usage: kiln_model_tool logits|step MODEL IN.safetensors OUT.safetensors, or names\n";
    return 2;
  }
  try {
    kiln::run(mode, arguments[2], arguments[3], arguments[4]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
