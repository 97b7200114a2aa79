// Time of what features are compared for, on features of random numbers.
//
//   kiln_neighbors_bench [THREADS]
//
// Prints a JSON object: milliseconds for the 5 nearest of 100,000 images for 1 and for 64 pictures,
// the least of ten; seconds to choose 100, 1,000 and 10,000 of 100,000 images to label, with 512
// features each.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/system.h"
#include "parallel/processors/processors.h"
#include "tools/select/choice.h"
#include "train/features/neighbors.h"

namespace kiln {
namespace {

constexpr std::int64_t kImages = 100'000, kWidth = 512;

double nearest_ms(const Neighbors& neighbors, std::int64_t num_pictures) {
  const at::Tensor pictures = at::randn({num_pictures, kNeighborAxes});
  double least = 1e9;
  for (int round = 0; round < 10; ++round) {
    const Stopwatch watch;
    neighbors.nearest(pictures, 5);
    least = std::min(least, 1e3 * watch.seconds());
  }
  return least;
}

double choice_s(const at::Tensor& rows, std::size_t count) {
  const Stopwatch watch;
  LabelingChoice choice(count);
  for (std::uint32_t i = 0; i < kImages; ++i)
    choice.add({.image = i, .hash = 0, .score = {}, .features = rows[i]});
  choice.take();
  return watch.seconds();
}

void measure() {
  const c10::InferenceMode no_gradients;
  at::manual_seed(1);
  const Neighbors neighbors = neighbors_of(at::randn({kImages, kNeighborAxes}));
  std::printf("{\"nearest_ms\": {\"1\": %.2f, \"64\": %.2f}, ", nearest_ms(neighbors, 1),
              nearest_ms(neighbors, 64));
  const at::Tensor rows = at::randn({kImages, kWidth});
  std::printf("\"choice_s\": {");
  for (const std::size_t count : {100, 1000, 10'000})
    std::printf("%s\"%zu\": %.2f", count == 100 ? "" : ", ", count, choice_s(rows, count));
  std::printf("}}\n");
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::use_compute_threads(argc > 1 ? std::atoi(argv[1]) : kiln::usable_cpus());
  kiln::measure();
}
