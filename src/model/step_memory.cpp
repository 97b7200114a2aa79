#include "model/step_memory.h"

namespace kiln {
namespace {

// Numbers in the feature maps that backward needs, for each pixel of an image. Every convolution
// and the ReLU after its normalization leave their results; torchvision's resnet.py and densenet.py
// have the shapes. `area` is that of a feature map, as a share of the image's.
struct Kept {
  double numbers = 0, area = 1;

  void add(double channels) { numbers += channels * area; }
  void stem(int channels) {
    area = 1.0 / 4;
    add(2 * channels);
    area /= 4;
    add(channels);  // after pooling
  }
};

double kept_numbers(const ResNetShape& shape, bool /*memory_efficient*/) {
  Kept kept;
  kept.stem(64);
  for (int stage = 0; stage < 4; ++stage) {
    const int planes = 64 << stage, out = shape.bottleneck ? 4 * planes : planes;
    const int inner =
        shape.bottleneck ? planes * shape.width_per_group / 64 * shape.groups : planes;
    for (int block = 0; block < shape.num_blocks[static_cast<std::size_t>(stage)]; ++block) {
      const bool is_halved = stage > 0 && block == 0;
      if (shape.bottleneck) kept.add(2 * inner);
      if (is_halved) kept.area /= 4;
      kept.add(2 * inner + 2 * out);
      if (block == 0 && (stage > 0 || shape.bottleneck)) kept.add(out);  // the shortcut's
    }
  }
  return kept.numbers;
}

double kept_numbers(const DenseNetShape& shape, bool memory_efficient) {
  constexpr int kBottleneckFactor = 4;
  Kept kept;
  kept.stem(shape.num_init_features);
  int channels = shape.num_init_features;
  for (std::size_t block = 0; block < shape.num_layers.size(); ++block) {
    for (int layer = 0; layer < shape.num_layers[block]; ++layer, channels += shape.growth_rate)
      kept.add((memory_efficient ? 0 : 2 * channels) +
               (2 * kBottleneckFactor + 1) * shape.growth_rate);
    kept.add(2 * channels);
    if (block + 1 == shape.num_layers.size()) break;
    channels /= 2;
    kept.area /= 4;
    kept.add(channels);
  }
  return kept.numbers;
}

}  // namespace

double least_step_bytes(const KnownNetwork& network, const StepSize& step) {
  constexpr double kImage = 3 * 4, kFirstMap = 64.0 / 4;
  const double numbers =
      step.is_backward
          ? std::visit(
                [&](const auto& shape) { return kept_numbers(shape, step.memory_efficient); },
                network.shape)
          : kFirstMap;
  const double pixels = static_cast<double>(step.height) * step.width * step.batch_size;
  return pixels * (kImage + numbers * (step.is_half ? 2 : 4));
}

}  // namespace kiln
