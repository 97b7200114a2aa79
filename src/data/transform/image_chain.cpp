#include "data/transform/image_chain.h"

#include <string>
#include <string_view>
#include <utility>

namespace kiln {
namespace {

// Returns nested JSON on one line, without line breaks and indentation: "[224, 160]".
std::string on_one_line(const std::string& json) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\n'; };
  const auto is_in = [](char c, std::string_view set) { return set.find(c) != set.npos; };
  std::string line;
  for (const char c : json) {
    const bool is_first = line.empty() || is_in(line.back(), "[{ ");
    if (is_in(c, "]}") && !line.empty() && line.back() == ' ') line.pop_back();
    if (!is_blank(c) || !is_first) line += is_blank(c) ? ' ' : c;
  }
  return line;
}

}  // namespace

std::string TransformChain::summary() const {
  std::string text;
  for (const Operation& operation : operations_) {
    const std::string arguments = on_one_line(operation.arguments);
    text += (text.empty() ? "" : ", ") + operation.name +
            (arguments.empty() || arguments == "{}" ? "" : " " + arguments);
  }
  return text.empty() ? "no operation" : text;
}

std::pair<TransformChain, TransformChain> TransformChain::split_at_draws() const {
  std::pair<TransformChain, TransformChain> parts;
  for (const Operation& operation : operations_) {
    TransformChain one;
    one.operations_.push_back(operation);
    const bool is_fixed = parts.second.empty() && !one.is_random();
    (is_fixed ? parts.first : parts.second).operations_.push_back(operation);
  }
  return parts;
}

std::shared_ptr<const ImageChain> training_chain(const TransformChain& chain,
                                                 std::optional<ImageSize> whole_image) {
  auto [fixed, drawn] = chain.split_at_draws();
  const std::optional<ImageSize> between = fixed.output_size(whole_image);
  const std::optional<ImageSize> end = chain.output_size(whole_image);
  return std::make_shared<const ImageChain>(
      ImageChain{.whole = chain,
                 .fixed = std::move(fixed),
                 .drawn = std::move(drawn),
                 .can_be_kept = between.has_value() && between == end});
}

std::shared_ptr<const ImageChain> inference_chain(const TransformChain& chain) {
  TransformChain all = chain.for_inference();
  return std::make_shared<const ImageChain>(
      ImageChain{.whole = all, .fixed = all, .drawn = {}, .can_be_kept = true});
}

}  // namespace kiln
