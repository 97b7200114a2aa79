// Mixed precision on the current thread, using LibTorch's autocast.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace kiln {

// For the lifetime of this object, forward passes on this thread with autocast keep the casts of
// weights for the passes that follow: of those that require gradients, and not in InferenceMode.
// Nothing may change the weights, and no pass may have a backward.
class KeptCasts {
 public:
  KeptCasts();
  ~KeptCasts();
  KeptCasts(const KeptCasts&) = delete;
  KeptCasts& operator=(const KeptCasts&) = delete;
};

// For the lifetime of this object, convolutions and linear layers on `device` compute in `type`;
// their weights are cast only once. With kFloat nothing changes: they compute in the type of their
// inputs. May be nested.
class Autocast {
 public:
  Autocast(c10::DeviceType device, c10::ScalarType type);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  // The type this thread currently computes in; `otherwise` if autocast is off.
  static c10::ScalarType type_on(c10::DeviceType device, c10::ScalarType otherwise = c10::kFloat);

 private:
  const KeptCasts kept_casts_;  // until the end, or while another one exists
  c10::DeviceType device_;
  bool is_on_;
  bool was_enabled_ = false;
  c10::ScalarType type_before_ = c10::kFloat;
};

}  // namespace kiln
