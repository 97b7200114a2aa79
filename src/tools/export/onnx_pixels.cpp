#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "data/image/resample.h"
#include "tools/export/onnx_network.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLastInterpolation = static_cast<std::int64_t>(Interpolation::kHamming);

std::vector<std::int64_t> both_sides(ImageSize size) {
  return {size.height, size.width};
}

// Pixels of images of one size, which is known when the graph runs: [N, 3, height, width], float32
// from 0 to 255.
class PixelNodes {
 public:
  PixelNodes(OnnxGraph& graph, const std::string& image)
      : graph_(graph),
        pixels_(graph.add("Transpose", {graph.cast(image, OnnxType::kFloat)},
                          {{"perm", std::vector<std::int64_t>{0, 3, 1, 2}}})),
        size_(graph.add("Shape", {image}, {{"start", std::int64_t{1}}, {"end", std::int64_t{3}}})) {
  }

  const std::string& pixels() const { return pixels_; }

  // The short side becomes `side`, and the long one is rounded down (resized_size()). With `exact`,
  // images of that size are left alone.
  void resize_short_side(std::int64_t side, std::optional<ImageSize> exact) {
    const std::string shortest = graph_.add("ReduceMin", {size_});
    std::string resized = scaled(graph_.integers({side}), shortest);
    if (exact) {
      const std::string equal = graph_.add("Equal", {size_, graph_.integers(both_sides(*exact))});
      const std::string are_both = graph_.cast(
          graph_.add("ReduceMin", {graph_.cast(equal, OnnxType::kInt64)}), OnnxType::kBool);
      resized = graph_.add("Where", {are_both, size_, resized});
    }
    resize(resized);
  }

  // The least size that covers `size` (covering_size()). An image of that size is left alone.
  void cover(ImageSize size) {
    const std::string height = side(0), width = side(1);
    const std::string out_height = graph_.integers({size.height}),
                      out_width = graph_.integers({size.width});
    const std::string is_tall = graph_.add(
        "GreaterOrEqual",
        {graph_.add("Mul", {height, out_width}), graph_.add("Mul", {width, out_height})});
    resize(scaled(graph_.add("Where", {is_tall, out_width, out_height}),
                  graph_.add("Where", {is_tall, width, height})));
  }

  // The largest size inside of `size` (inner_size()), with `fill` around the image. Around the
  // differences from it are zeros: Pad has one number for all channels.
  void pad(ImageSize size, const std::array<std::uint8_t, 3>& fill) {
    const std::string all = graph_.integers(both_sides(size));
    const std::string other_side = concatenated(side(1), side(0));
    const std::string inner = scaled(graph_.integers({size.width, size.height}), other_side);
    resize(graph_.add("Min", {graph_.add("Max", {inner, graph_.integers({1, 1})}), all}));
    const std::string color = graph_.channels({1.0 * fill[0], 1.0 * fill[1], 1.0 * fill[2]});
    const std::string rest = graph_.add("Sub", {all, size_}), first = half_of(rest);
    const std::string ends = concatenated(first, graph_.add("Sub", {rest, first}));
    const std::string difference = graph_.add("Sub", {pixels_, color});
    pixels_ = graph_.add("Pad", {difference, ends, "", graph_.integers({2, 3})});
    pixels_ = graph_.add("Add", {pixels_, color});
    size_ = all;
  }

  void resize(ImageSize size) { resize(graph_.integers(both_sides(size))); }

  // The last node fails for an image that is smaller.
  void center_crop(ImageSize size) {
    const std::string wanted = graph_.integers(both_sides(size));
    const std::string start = half_of(graph_.add("Sub", {size_, wanted}));
    pixels_ = graph_.add(
        "Slice", {pixels_, start, graph_.add("Add", {start, wanted}), graph_.integers({2, 3})});
    pixels_ = graph_.add("Reshape", {pixels_, graph_.integers({0, 3, size.height, size.width})});
    size_ = wanted;
  }

 private:
  // Rounded half to even (center_offset()), as Round does.
  std::string half_of(const std::string& excess) {
    const std::string half =
        graph_.add("Div", {graph_.cast(excess, OnnxType::kFloat), graph_.number(2)});
    return graph_.cast(graph_.add("Round", {half}), OnnxType::kInt64);
  }
  std::string concatenated(const std::string& first, const std::string& second) {
    return graph_.add("Concat", {first, second}, {{"axis", std::int64_t{0}}});
  }
  std::string side(std::int64_t i) {
    return graph_.add("Slice", {size_, graph_.integers({i}), graph_.integers({i + 1})});
  }
  std::string scaled(const std::string& numerator, const std::string& denominator) {
    return graph_.add("Div", {graph_.add("Mul", {size_, numerator}), denominator});
  }

  // A triangle filter that widens with the reduction, over the width and then over the height, each
  // rounded to whole levels, as the program's pixels are (data/image/resample.h).
  void resize(const std::string& size) {
    size_ = size;
    for (const std::int64_t axis : {1, 0}) {
      pixels_ = graph_.add("Resize", {pixels_, "", "", side(axis)},
                           {{"mode", std::string("linear")},
                            {"antialias", std::int64_t{1}},
                            {"exclude_outside", std::int64_t{1}},
                            {"coordinate_transformation_mode", std::string("half_pixel")},
                            {"axes", std::vector<std::int64_t>{axis + 2}}});
      pixels_ = graph_.add("Floor", {graph_.add("Add", {pixels_, graph_.number(0.5F)})});
    }
  }

  OnnxGraph& graph_;
  std::string pixels_, size_;  // the latter: [2], height and width
};

// The arguments of an operation that only has a size: [256], [height, width]. Empty: it has others,
// such as the second number of ["Resize", [256, 3]], an interpolation.
std::vector<std::int64_t> sides_of(const Json& arguments) {
  const Json& size = arguments.is_object() && arguments.size() == 1 ? arguments.front() : arguments;
  if (size.is_number_integer()) return {size.get<std::int64_t>()};
  if (!size.is_array() || size.empty() || size.size() > 2) return {};
  std::vector<std::int64_t> sides;
  for (const Json& side : size) {
    if (!side.is_number_integer()) return {};
    sides.push_back(side.get<std::int64_t>());
  }
  if (arguments.is_array() && sides.size() == 2 && sides.back() <= kLastInterpolation) return {};
  return sides;
}

ImageSize square_or(const std::vector<std::int64_t>& sides) {
  return {static_cast<int>(sides.front()), static_cast<int>(sides.back())};
}

// `chain` has been parsed before, so its arguments are valid.
void add_chain(PixelNodes& nodes, const TransformChain& chain) {
  for (const Json& operation : parse_ordered_json(chain.to_json())) {
    const auto name = operation.at(0).get<std::string>();
    const std::vector<std::int64_t> sides = sides_of(operation.at(1));
    if (name == "Resize" && sides.size() == 1)
      nodes.resize_short_side(sides.front(), {});
    else if (name == "Resize" && sides.size() == 2)
      nodes.resize(square_or(sides));
    else if (name == "CenterCrop" && !sides.empty())
      nodes.center_crop(square_or(sides));
    else
      throw Error(
          ErrorCode::kUserError,
          "The model prepares images with " + name + " " + operation.at(1).dump() +
              ", which ONNX cannot do as the program does: give --input pixels, and prepare "
              "the images yourself.");
  }
}

}  // namespace

std::string add_pixels(OnnxGraph& graph, const TransformSpec& spec,
                       const Normalization& normalization, const std::string& image) {
  PixelNodes nodes(graph, image);
  if (spec.chain) {
    add_chain(nodes, spec.chain->whole);
    nodes.cover(spec.output);
  } else if (spec.fit == Fit::kPad) {
    nodes.pad(spec.output, spec.fill);
  } else if (spec.fit == Fit::kStretch) {
    nodes.resize(spec.output);
  } else if (spec.short_side > 0) {
    nodes.resize_short_side(spec.short_side,
                            spec.keep_exact ? std::optional(spec.output) : std::nullopt);
  } else {
    nodes.cover(spec.output);
  }
  nodes.center_crop(spec.output);
  const std::string unit = graph.add("Div", {nodes.pixels(), graph.number(255)});
  return graph.add("Div", {graph.add("Sub", {unit, graph.channels(normalization.mean)}),
                           graph.channels(normalization.std)});
}

}  // namespace kiln
