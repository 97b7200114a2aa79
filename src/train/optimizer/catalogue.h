// What is known of the optimizers without building them: their names, and what --recipe modern sets
// for each. Also used by the command line, so there is no LibTorch here.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace kiln {

// A row of the table.
struct KnownOptimizer {
  std::string_view name;
  std::string_view description;  // for --help, without a dot at its end
  // What --recipe modern sets: the learning rate of a process, by the images of its steps, the
  // weight decay, by that rate times the steps, and the parameters without it (--no-decay).
  double (*modern_learning_rate)(double images);
  double (*modern_weight_decay)(double path);
  std::string_view modern_no_decay;
};

// The first one is the default.
inline constexpr auto kKnownOptimizers = std::to_array<KnownOptimizer>({
    // 90 epochs of ImageNet in batches of 256: 0.256 and 0.00005
    {"sgd", "Nesterov momentum", [](double images) { return 0.001 * images; },
     [](double path) { return std::min(0.005, 5.8 / path); }, "none"},
    {"adamw", "Adam with decoupled weight decay",
     [](double images) { return 0.001 * std::sqrt(images / 256); }, [](double) { return 0.05; },
     "norm-and-bias"},
});

}  // namespace kiln
