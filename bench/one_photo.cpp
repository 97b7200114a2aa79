// The least that a LibTorch program does for one photo, beside `kiln score`: one_photo NETWORK.pt
// loads a traced network and forwards one image of 224x224 pixels. See start.sh.
#include <ATen/ops/rand.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cstdio>

int main(int, char** words) {
  const c10::InferenceMode guard;
  torch::jit::Module network = torch::jit::load(words[1]);
  const at::Tensor logits = network.forward({at::rand({1, 3, 224, 224})}).toTensor();
  std::printf("%d\n", logits.argmax(1).item<int>());
}
