// What is known of the optimizers without building them: their names, and what --recipe modern sets
// for each. Also used by the command line, so there is no LibTorch here.
#pragma once

#include <array>
#include <cmath>
#include <string_view>

namespace kiln {

// A row of the table.
struct KnownOptimizer {
  std::string_view name;
  std::string_view description;  // for --help, without a dot at its end
  // What --recipe modern sets: the learning rate of a process, by the images of its steps, and the
  // weight decay as a user would write it.
  double (*modern_learning_rate)(double images);
  std::string_view modern_weight_decay;
};

// The first one is the default.
inline constexpr auto kKnownOptimizers = std::to_array<KnownOptimizer>({
    // 0.256 for 256 images
    {"sgd", "Nesterov momentum", [](double images) { return 0.001 * images; }, "0.00005"},
    {"adamw", "Adam with decoupled weight decay",
     [](double images) { return 0.001 * std::sqrt(images / 256); }, "0.05"},
    {"lars",
     "momentum with layer-wise learning rates from the norms of weights and gradients, for large "
     "batches",
     [](double images) { return 0.003 * images; }, "0.00005"},
});

// Null for an unknown name.
constexpr const KnownOptimizer* find_optimizer(std::string_view name) {
  for (const KnownOptimizer& optimizer : kKnownOptimizers)
    if (optimizer.name == name) return &optimizer;
  return nullptr;
}

}  // namespace kiln
