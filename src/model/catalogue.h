// The supported networks and their static properties. Also used by the command line and the readers
// of model directories, so it does not depend on LibTorch.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kiln {

// Options that some networks have, by their names in model_spec.yaml.
inline constexpr std::string_view kMemoryEfficient = "memory_efficient";
inline constexpr std::string_view kZeroInitResidual = "zero_init_residual";

// Properties shared by a family of networks.
struct NetworkFamily {
  std::string_view name;  // "ResNet"; also the name of the designer's class
  std::string_view designer_module =
      {};                        // the last part of its Python module; empty: not its network
  std::string_view first_layer;  // "conv1.weight": recognizes a network in a file
  std::vector<std::string_view> options = {};
  // These determine the size of the feature map before global pooling. The first layers, which
  // round up, have a combined stride of `stride_rounding_up`; those after them round down.
  int stride_rounding_up;
  int stride_rounding_down;
  std::string_view modern_optimizer = "sgd";  // of --recipe modern
  bool has_batch_norm = true;

  bool allows(std::string_view option) const { return std::ranges::count(options, option) > 0; }
  int stride() const { return stride_rounding_up * stride_rounding_down; }
  // The smallest image side that still gives a feature map of one pixel.
  int smallest_side() const { return stride_rounding_up * (stride_rounding_down - 1) + 1; }
  // Side of the feature map before global pooling; 0 if the image is too small.
  int final_map_side(int image_side) const;
};

// A file of weights that others publish. License: not stated by torchvision; of timm's, Apache 2.0.
struct PublishedWeights {
  // Of torchvision: its name, which has the first eight hex digits of its SHA-256. Of timm: its
  // repository's name on the Hugging Face hub. Of others: the URL.
  std::string_view file = {};  // empty: there is none
  int megabytes = 0;           // of 10^6 bytes
  double top1 = 0;             // percent, stated for ImageNet's validation images; 0: not stated
  int side = 224;              // of images that are resized, in pixels, where no option says it
  std::string_view revision = {}, sha256 = {};  // of timm's; empty: not known
  bool is_half = false;  // for images normalized by means and deviations of 0.5

  std::string url() const;
};

// A row of the catalogue. Its layers are in the file of its family: resnet.cpp.
struct KnownNetwork {
  std::string_view name;  // as in torchvision
  std::string_view family_name;
  std::array<PublishedWeights, 2> published = {};  // the second by torchvision's newer recipe
  std::array<std::string_view, 2> also = {};       // its names in timm and elsewhere
  int patch = 0;  // images are cut into squares of so many pixels; 0: they are not

  const NetworkFamily& family() const;
  int side() const { return published[0].side; }
  // As those of the family, for this network: with patches a side must be a multiple of theirs.
  int smallest_side() const { return patch > 0 ? patch : family().smallest_side(); }
  int final_map_side(int image_side) const;
  // What is wrong with images of this size: "are too small for resnet50"; empty if nothing is.
  std::string size_fault(int height, int width) const;
  // Throws Error `code` if something is: "Images of 8x8 pixels are too small for resnet50:
  // `advice`."
  void require_size(int height, int width, const std::string& advice,
                    ErrorCode code = ErrorCode::kInvalidDataset) const;
};

const std::vector<NetworkFamily>& network_families();
const std::vector<KnownNetwork>& known_networks();
std::vector<std::string> network_names();

// Null for an unknown name. A family by its name: find_row().
const KnownNetwork* find_network(std::string_view name);

// Throws Error kInvalidModelDirectory, listing the known names, for an unknown name.
const KnownNetwork& known_network(std::string_view name);

// The weights that torchvision and timm publish, by a word in place of a file: `torchvision`, or
// `torchvision:v2` for the second file of a network that has two, or `timm`. A file of such a name
// is `./torchvision`.
bool names_published(std::string_view weights);
// The file that a word means for the network; null if there is none.
const PublishedWeights* find_published(const KnownNetwork& network, std::string_view word);
// Throws Error kUserError, with the networks that have one, if there is none.
const PublishedWeights& published_weights(const KnownNetwork& network, std::string_view word);
// Whether the name of a file has that of one of timm's with `is_half`.
bool is_of_half(std::string_view file_name);

}  // namespace kiln
