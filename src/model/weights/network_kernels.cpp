#include "model/weights/network_kernels.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <variant>

namespace kiln {
namespace {

constexpr std::size_t kKernelDimensions = 4;
constexpr int kBottleneckExpansion = 4;  // ResNet: output channels of a block / its base channels
constexpr int kDenseBottleneck = 4;  // DenseNet: channels between two convolutions / growth rate

class KernelList {
 public:
  void add(const std::string& layer, std::int64_t out, std::int64_t in, std::int64_t side) {
    kernels_.push_back({"model." + layer + ".weight", {out, in, side, side}});
  }

  void add_block(const ResNetShape& shape, const std::string& block, std::int64_t in,
                 std::int64_t channels) {
    if (!shape.bottleneck) {
      add(block + ".conv1", channels, in, 3);
      add(block + ".conv2", channels, channels, 3);
      return;
    }
    const std::int64_t width = channels * shape.width_per_group / 64 * shape.groups;
    add(block + ".conv1", width, in, 1);
    add(block + ".conv2", width, width / shape.groups, 3);
    add(block + ".conv3", channels * kBottleneckExpansion, width, 1);
  }

  void add_network(const ResNetShape& shape) {
    std::int64_t in = 64;
    add("conv1", in, 3, 7);
    for (std::size_t stage = 0; stage < shape.num_blocks.size(); ++stage) {
      const std::int64_t channels = std::int64_t{64} << stage;
      const std::int64_t out = channels * (shape.bottleneck ? kBottleneckExpansion : 1);
      for (int i = 0; i < shape.num_blocks[stage]; ++i) {
        const std::string block = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
        add_block(shape, block, in, channels);
        if (i == 0 && (stage > 0 || in != out)) add(block + ".downsample.0", out, in, 1);
        in = out;
      }
    }
  }

  void add_network(const DenseNetShape& shape) {
    std::int64_t in = shape.num_init_features;
    add("features.conv0", in, 3, 7);
    const std::int64_t inside = std::int64_t{kDenseBottleneck} * shape.growth_rate;
    for (std::size_t block = 0; block < shape.num_layers.size(); ++block) {
      const std::string number = std::to_string(block + 1);
      for (int i = 0; i < shape.num_layers[block]; ++i) {
        const std::string layer =
            "features.denseblock" + number + ".denselayer" + std::to_string(i + 1);
        add(layer + ".conv1", inside, in, 1);
        add(layer + ".conv2", shape.growth_rate, inside, 3);
        in += shape.growth_rate;
      }
      if (block + 1 == shape.num_layers.size()) break;
      add("features.transition" + number + ".conv", in / 2, in, 1);
      in /= 2;
    }
  }

  std::vector<Kernel> take() { return std::move(kernels_); }

 private:
  std::vector<Kernel> kernels_;
};

}  // namespace

std::vector<Kernel> kernels_of(const KnownNetwork& network) {
  KernelList list;
  std::visit([&](const auto& shape) { list.add_network(shape); }, network.shape);
  return list.take();
}

double likeness(const StateDict& state, const KnownNetwork& network) {
  std::unordered_map<std::string_view, const StoredTensor*> theirs;
  for (const StoredTensor& tensor : state)
    if (tensor.shape.size() == kKernelDimensions) theirs.emplace(tensor.name, &tensor);
  const std::vector<Kernel> kernels = kernels_of(network);
  const auto shared = std::count_if(kernels.begin(), kernels.end(), [&](const Kernel& kernel) {
    const auto found = theirs.find(kernel.name);
    return found != theirs.end() && found->second->shape == kernel.shape;
  });
  const auto all = static_cast<std::ptrdiff_t>(kernels.size() + theirs.size()) - shared;
  return static_cast<double>(shared) / static_cast<double>(all);
}

const KnownNetwork& nearest_network(const StateDict& state) {
  const std::vector<KnownNetwork>& networks = known_networks();
  return *std::max_element(networks.begin(), networks.end(),
                           [&](const KnownNetwork& a, const KnownNetwork& b) {
                             return likeness(state, a) < likeness(state, b);
                           });
}

}  // namespace kiln
