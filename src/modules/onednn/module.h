// The interface of libkiln_onednn.so: operations of oneDNN that are prepared once and then only
// executed. LibTorch's operators make a convolution's descriptor anew in each call, which takes 50
// to 80 microseconds however small it is, and LibTorch does not export its oneDNN. Uses only
// standard C++ types: the program includes no headers of oneDNN, and the module needs no symbols
// from the program. It computes on LibTorch's OpenMP threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace kiln {

// What follows a convolution and its normalization.
enum class Activation { kNone, kRelu, kHardswish, kSilu };

struct PreparedShape {
  std::int64_t images, in_channels, height, width, out_channels, kernel, stride, padding, groups;
  bool is_bfloat16;  // maps and weights; otherwise float32
  bool adds;         // to what the output holds, before the activation
  Activation activation;

  // The height or width of what comes out, of that of what goes in.
  std::int64_t outputs(std::int64_t side) const {
    return (side + 2 * padding - kernel) / stride + 1;
  }
  bool operator==(const PreparedShape&) const = default;
};

class Prepared {
 public:
  virtual ~Prepared() = default;
  // `x`: [images, height, width, in_channels] without gaps; `out` likewise. By one thread at a
  // time.
  virtual void run(const void* x, void* out) = 0;
};
using PreparedPointer = std::shared_ptr<Prepared>;

struct OnednnModule {
  int version;  // kOnednnModuleVersion of the build
  // `weight`: float32, [out_channels, in_channels / groups, kernel, kernel] without gaps; `bias`:
  // float32, [out_channels], or null. Both are copied, and the weights packed. `others`: of other
  // shapes with these weights; it shares their packed ones where it can, and some may be null.
  // Returns null where oneDNN has no fast kernel on this processor. Throws std::bad_alloc.
  PreparedPointer (*convolution)(const PreparedShape& shape, const float* weight, const float* bias,
                                 const std::vector<PreparedPointer>& others);
  // Likewise, of the largest pixel under the kernel; out_channels are in_channels, and no groups.
  PreparedPointer (*max_pool)(const PreparedShape& shape);
};

// Increased whenever the structures above change, so that parts of two builds are never combined.
inline constexpr int kOnednnModuleVersion = 1;

// The exported function, of type `const OnednnModule*()`.
inline constexpr const char* kOnednnModuleSymbol = "kiln_onednn_module";

}  // namespace kiln
