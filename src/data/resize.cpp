#include "data/resize.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "data/decode.h"

namespace kiln {
namespace {

// at::set_num_threads would change the whole process; OpenMP's own setting belongs to the calling
// thread. It is found by name in the OpenMP library that LibTorch brings. LibTorch sets the thread
// up at its first use, so that comes first.
void use_one_thread() {
  thread_local bool done = false;
  if (done) return;
  done = true;
  at::get_num_threads();
  using SetNumThreads = void (*)(int);
  const auto set = reinterpret_cast<SetNumThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr) set(1);
}

ImageSize resized_size(ImageSize from, int size) {
  const auto short_side = static_cast<std::int64_t>(std::lround(size * 256.0 / 224.0));
  const std::int64_t least = std::min(from.height, from.width);
  const std::int64_t most = std::max(from.height, from.width);
  const std::int64_t long_side = short_side * most / least;
  if (short_side * long_side > kMaxImagePixels) {
    throw ImageFault("too elongated to resize: " + std::to_string(from.width) + " x " +
                     std::to_string(from.height));
  }
  const auto a = static_cast<int>(short_side), b = static_cast<int>(long_side);
  return from.height <= from.width ? ImageSize{a, b} : ImageSize{b, a};
}

// Half of `excess`, rounded to the even neighbour as Python's round does.
int crop_offset(int excess) {
  const int half = excess / 2;
  return excess % 2 != 0 && half % 2 != 0 ? half + 1 : half;
}

at::Tensor view_of(const Image& image) {
  const std::int64_t height = image.size.height, width = image.size.width;
  return at::from_blob(const_cast<std::uint8_t*>(image.pixels.data()), {1, 3, height, width},
                       {height * width * 3, 1, width * 3, 3}, at::TensorOptions(at::kByte));
}

}  // namespace

Image resize_and_crop(const Image& image, int size) {
  use_one_thread();
  const c10::InferenceMode guard;
  const ImageSize whole = resized_size(image.size, size);
  at::Tensor resized = view_of(image);
  if (whole != image.size) {
    resized = at::_upsample_bilinear2d_aa(resized, {whole.height, whole.width}, false, std::nullopt,
                                          std::nullopt);
  }
  resized = resized.contiguous(at::MemoryFormat::ChannelsLast);
  const int top = crop_offset(whole.height - size), left = crop_offset(whole.width - size);
  Image result;
  result.size = {size, size};
  const std::size_t row_bytes = static_cast<std::size_t>(size) * 3;
  result.pixels.resize(row_bytes * static_cast<std::size_t>(size));
  const std::uint8_t* in = resized.const_data_ptr<std::uint8_t>() +
                           (static_cast<std::size_t>(top) * static_cast<std::size_t>(whole.width) +
                            static_cast<std::size_t>(left)) *
                               3;
  for (int y = 0; y < size; ++y, in += static_cast<std::size_t>(whole.width) * 3) {
    std::memcpy(result.pixels.data() + static_cast<std::size_t>(y) * row_bytes, in, row_bytes);
  }
  return result;
}

}  // namespace kiln
