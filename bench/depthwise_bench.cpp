#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/system.h"
#include "kiln_bench.h"
#include "parallel/processors/processors.h"
#include "train/tensor_memory.h"

namespace kiln {
namespace {

struct Shape {
  std::int64_t channels, kernel, stride, side;  // of the map at 224 pixels
};

// Depthwise layers of MobileNetV3-L, EfficientNet-B0 and V2-S, and ConvNeXt-T. None of these has
// kernels of 7 with a stride of 2.
constexpr Shape kShapes[] = {{16, 3, 1, 112}, {72, 3, 1, 56},  {200, 3, 1, 14}, {672, 3, 1, 14},
                             {1536, 3, 1, 7}, {64, 3, 2, 112}, {240, 3, 2, 28}, {960, 3, 2, 14},
                             {120, 5, 1, 28}, {480, 5, 1, 14}, {960, 5, 1, 7},  {72, 5, 2, 56},
                             {672, 5, 2, 14}, {96, 7, 1, 56},  {192, 7, 1, 28}, {384, 7, 1, 14},
                             {768, 7, 1, 7},  {96, 7, 2, 56},  {384, 7, 2, 14}};

// Milliseconds of both, in turn: the least of the rounds.
std::array<double, 2> least(int rounds, const std::array<std::function<void()>, 2>& both) {
  std::array<double, 2> found{1e9, 1e9};
  for (int round = 0; round <= rounds; ++round)
    for (std::size_t i = 0; i < both.size(); ++i) {
      const Stopwatch watch;
      both[i]();
      if (round > 0) found[i] = std::min(found[i], 1e3 * watch.seconds());
    }
  return found;
}

}  // namespace

void bench_depthwise(Words& words) {
  const int rounds = words.take_number("rounds", 10), batch = words.take_number("batch-size", 16);
  const int size = words.take_number("size", 224);
  use_compute_threads(words.take_number("threads", usable_cpus()));
  words.finish();
  keep_freed_memory();
  keep_tensor_memory();
  const c10::InferenceMode inference;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& [channels, kernel, stride, full] : kShapes)
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const std::int64_t side = std::max<std::int64_t>(1, full * size / 224);
      const at::Tensor x = at::randn({batch, channels, side, side})
                               .to(type)
                               .contiguous(at::MemoryFormat::ChannelsLast);
      const at::Tensor weight = at::randn({channels, 1, kernel, kernel}).to(type);
      const auto convolve = [&, s = stride, k = kernel, c = channels] {
        return at::conv2d(x, weight, {}, s, k / 2, 1, c);
      };
      const at::Tensor dy = at::randn_like(convolve());
      const auto theirs = [&, s = stride, k = kernel, c = channels](bool is_input) {
        at::convolution_backward(dy, x, weight, at::OptionalIntArrayRef(), {s, s}, {k / 2, k / 2},
                                 {1, 1}, false, {0, 0}, c, {is_input, !is_input, false});
      };
      const auto ours = [&, s = stride](bool is_input) {
        std::vector<c10::IValue> values{dy, x, weight, s, c10::List<bool>({is_input, !is_input})};
        c10::Dispatcher::singleton()
            .findSchemaOrThrow("kiln::depthwise_backward", "")
            .callBoxed(values);
      };
      for (const bool is_input : {true, false}) {
        const auto [there, here] =
            least(rounds, {[&] { theirs(is_input); }, [&] { ours(is_input); }});
        rows.push_back({{"gradient", is_input ? "input" : "weight"},
                        {"kernel", kernel},
                        {"stride", stride},
                        {"type", type == at::kFloat ? "float32" : "bfloat16"},
                        {"channels", channels},
                        {"side", side},
                        {"onednn_ms", there},
                        {"kiln_ms", here},
                        {"times_as_fast", there / here}});
      }
    }
  std::printf("%s\n",
              nlohmann::ordered_json{{"batch_size", batch}, {"passes", rows}}.dump(2).c_str());
}

}  // namespace kiln
