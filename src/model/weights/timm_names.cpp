#include "model/weights/timm_names.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace kiln {
namespace {

// Parts of names, theirs and ours in turns; those without a dot at their end are a name's end. The
// first two are of torchvision's published files.
constexpr const char* kViT =
    ".mlp.linear_1. .mlp.0. .mlp.linear_2. .mlp.3. .mlp.fc1. .mlp.0. .mlp.fc2. .mlp.3. "
    ".cls_token .class_token .pos_embed .encoder.pos_embedding .patch_embed.proj. .conv_proj. "
    ".blocks. .encoder.layers.encoder_layer_ .norm1. .ln_1. .norm2. .ln_2. "
    ".attn.qkv. .self_attention.in_proj_ .attn.proj. .self_attention.out_proj. "
    "model.norm. model.encoder.ln. model.head. model.heads.head.";
constexpr const char* kConvNeXt =
    ".stem. .features.0. .stages.0.blocks. .features.1. .stages.1.downsample. .features.2. "
    ".stages.1.blocks. .features.3. .stages.2.downsample. .features.4. .stages.2.blocks. "
    ".features.5. .stages.3.downsample. .features.6. .stages.3.blocks. .features.7. "
    ".head.norm. .classifier.0. .head.fc. .classifier.2. .gamma .layer_scale .conv_dw. .block.0. "
    ".norm. .block.2. .mlp.fc1. .block.3. .mlp.fc2. .block.5.";

using Layers = std::set<std::string>;                  // of a block: "bn1", "conv_dw", …
using Blocks = std::map<std::pair<int, int>, Layers>;  // by stage and place in it

// Of a layer among those of its block, where a norm has its convolution's place.
std::ptrdiff_t position(const Layers& layers, const std::string& layer) {
  constexpr std::string_view kOrder = "conv_exp conv_pw conv_dw se conv_pwl ";
  const bool narrows = layers.contains("conv_pwl");  // else that is conv_pw
  const auto rank = [&](const std::string& one) {
    return kOrder.find(one == "conv_pw" && !narrows ? "conv_pwl " : one + " ");
  };
  if (!layer.starts_with("bn"))
    return std::ranges::count_if(layers,
                                 [&](const auto& other) { return rank(other) < rank(layer); });
  const int number = layer.back() - '1';  // squeeze and excitation is before the last
  return number + (layers.contains("se") && !layers.contains("bn" + std::to_string(number + 2)));
}

Blocks timms_blocks(const StateDict& state) {
  Blocks blocks;
  for (const StoredTensor& tensor : state) {
    std::pair<int, int> place;
    std::array<char, 16> layer{};
    if (std::sscanf(tensor.name.c_str(), "model.blocks.%3d.%3d.%15[a-z_0-9].", &place.first,
                    &place.second, layer.data()) == 3)
      blocks[place].insert(layer.data());
  }
  return blocks;
}

// Of a network by our names, whose blocks have another width in each stage.
Blocks own_blocks(const StateDict& state, bool is_mobilenet) {
  constexpr std::string_view kBlock = ".block.";
  std::map<std::pair<int, int>, std::map<char, std::vector<std::int64_t>>> shapes;  // by place
  std::set<std::pair<int, int>> squeezing;
  for (const StoredTensor& tensor : state) {
    const std::size_t at = tensor.name.find(kBlock);
    if (at == tensor.name.npos) continue;
    const std::string layer = tensor.name.substr(at + kBlock.size());  // "1.0.weight"
    std::pair<int, int> block;
    std::sscanf(tensor.name.c_str(), "model.features.%3d.%3d", &block.first, &block.second);
    if (layer.ends_with(".0.weight")) shapes[block][layer[0]] = tensor.shape;
    if (layer.ends_with(".fc1.weight")) squeezing.insert(block);
  }
  Blocks blocks;
  std::int64_t width = 0;
  int stage = -1, place = 0;
  for (const auto& [block, own] : shapes) {
    const std::int64_t own_width = own.rbegin()->second[0];
    const bool is_next = std::exchange(width, own_width) != own_width;
    stage += is_next ? 1 : 0;
    place = is_next ? 0 : place + 1;
    const bool is_deep = own.begin()->second[1] == 1;  // depthwise
    Layers& layers = blocks[{stage, place}] =
        own.size() == 3   ? Layers{"conv_pw", "bn1", "conv_dw", "bn2", "conv_pwl", "bn3"}
        : own.size() == 1 ? Layers{"conv", "bn1"}
        : is_deep         ? Layers{"conv_dw", "bn1", "conv_pw", "bn2"}
                          : Layers{"conv_exp", "bn1", "conv_pwl", "bn2"};
    if (squeezing.contains(block)) layers.insert("se");
  }
  if (is_mobilenet) blocks[{stage + 1, 0}] = {"conv", "bn1"};
  return blocks;
}

// The parts of MobileNetV3's names and EfficientNet's, whose blocks have different layers.
std::string parts_of_inverted(const Blocks& blocks, bool is_mobilenet) {
  std::string parts;
  int number = 0;
  for (const auto& [place, layers] : blocks) {
    const std::string stage = std::to_string(place.first), one = std::to_string(place.second),
                      own = is_mobilenet ? std::to_string(++number)
                                         : std::to_string(place.first + 1) + "." + one;
    const bool is_last = is_mobilenet && layers.contains("conv");  // no block
    for (const std::string& layer : layers)
      parts += "model.blocks." + stage + "." + one + "." + layer + ". model.features." + own +
               (is_last ? "" : ".block." + std::to_string(position(layers, layer))) +
               (layer == "se"             ? ". "
                : layer.starts_with("bn") ? ".1. "
                                          : ".0. ");
  }
  const int stages = blocks.empty() ? 0 : blocks.rbegin()->first.first + 1;
  const std::string last = " model.features." + std::to_string(stages + 1);
  return parts +
         ".conv_reduce. .fc1. .conv_expand. .fc2. model.conv_stem. model.features.0.0. "
         "model.bn1. model.features.0.1. " +
         (is_mobilenet
              ? "model.classifier. model.classifier.3. model.conv_head. model.classifier.0."
              : "model.classifier. model.classifier.1. model.conv_head." + last + ".0. model.bn2." +
                    last + ".1.");
}

// From their names to ours, or back.
void rename_parts(StateDict& state, const std::string& parts, bool is_back) {
  std::vector<std::pair<std::string, std::string>> renamings(1);
  for (std::istringstream words(parts); words >> renamings.back().first >> renamings.back().second;)
    renamings.emplace_back();
  renamings.pop_back();
  if (is_back) {
    std::ranges::reverse(renamings);
    for (auto& [theirs, ours] : renamings) std::swap(theirs, ours);
  }
  for (StoredTensor& tensor : state)
    for (const auto& [from, to] : renamings)
      if (const std::size_t at = tensor.name.find(from);
          at != std::string::npos &&
          (from.ends_with('.') || from.ends_with('_') || at + from.size() == tensor.name.size()))
        tensor.name.replace(at, from.size(), to);
}

float value_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double size = exponent == 31  ? HUGE_VAL
                      : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>(bits >> 15 ? -size : size);
}

// The value at `bytes`, of one of the four types of floating-point numbers.
double value_at(const char* bytes, DType type) {
  const auto read = [bytes](auto value) {
    std::memcpy(&value, bytes, sizeof value);
    return value;
  };
  if (type == DType::kFloat64) return read(double{});
  if (type == DType::kFloat32) return read(float{});
  const auto bits = read(std::uint16_t{});
  return type == DType::kFloat16 ? value_of_half(bits)
                                 : std::bit_cast<float>(std::uint32_t{bits} << 16);
}

void add_to(StoredTensor& variances, double change) {
  if (variances.dtype > DType::kBFloat16) return;  // of whole numbers, which are refused
  const std::size_t size = byte_size(variances.dtype);
  std::string sums;
  for (std::size_t at = 0; at + size <= variances.bytes.size(); at += size) {
    const auto sum = static_cast<float>(value_at(&variances.bytes[at], variances.dtype) + change);
    sums.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  }
  variances.dtype = DType::kFloat32;
  variances.bytes = std::move(sums);
}

}  // namespace

std::string rename_to_torchvision(StateDict& state, bool is_tensorflows) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const StoredTensor& tensor : state) shapes[tensor.name] = tensor.shape;
  const std::vector<std::int64_t> base{768, 3, 16, 16};
  const bool is_inverted = shapes.contains("model.conv_stem.weight");
  const bool is_mobilenet = is_inverted && !shapes.contains("model.bn2.weight");
  const bool is_v2 = shapes.contains("model.blocks.1.0.conv_exp.weight");
  const double epsilon = is_tensorflows ? 1e-3 : 1e-5, own = is_mobilenet || is_v2 ? 1e-3 : 1e-5;
  std::string parts;
  if (shapes.contains("model.conv_proj.weight") || shapes["model.patch_embed.proj.weight"] == base)
    parts = kViT;
  else if (shapes.contains("model.stem.0.weight"))
    parts = kConvNeXt;
  else if (is_inverted)
    parts = parts_of_inverted(timms_blocks(state), is_mobilenet);
  rename_parts(state, parts, /*is_back=*/false);
  for (StoredTensor& tensor : state) {
    if (tensor.name.ends_with(".layer_scale") && tensor.shape.size() == 1)
      tensor.shape.resize(3, 1);
    if (is_mobilenet && tensor.name == "model.classifier.0.weight" && tensor.shape.size() == 4)
      tensor.shape = {tensor.shape[0], tensor.shape[1] * tensor.shape[2] * tensor.shape[3]};
    if (is_inverted && epsilon != own && tensor.name.ends_with(".running_var"))
      add_to(tensor, epsilon - own);
  }
  if (!is_inverted) return "";
  return formatted(", epsilon of timm's BatchNorm %g", epsilon) +
         (is_tensorflows ? ": of a tf_ network, which pads images otherwise"
                         : ": assumed, as no tf_ is in the file's name");
}

void rename_to_timm(StateDict& state, std::string_view family) {
  const bool is_mobilenet = family == "MobileNetV3", is_efficient = family == "EfficientNet";
  std::string parts = family == "ViT" ? kViT : family == "ConvNeXt" ? kConvNeXt : "";
  if (is_mobilenet || is_efficient)
    parts = parts_of_inverted(own_blocks(state, is_mobilenet), is_mobilenet);
  rename_parts(state, parts, /*is_back=*/true);
  const bool is_v2 =
      std::ranges::count(state, "model.blocks.1.0.conv_exp.weight", &StoredTensor::name) > 0;
  for (StoredTensor& tensor : state) {
    if (tensor.name.ends_with(".gamma")) tensor.shape.resize(1);
    if (is_mobilenet && tensor.name == "model.conv_head.weight") tensor.shape.resize(4, 1);
    if ((is_mobilenet || is_v2) && tensor.name.ends_with(".running_var"))
      add_to(tensor, 1e-3 - 1e-5);
  }
}

}  // namespace kiln
