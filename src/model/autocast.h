// Mixed precision on this thread, by LibTorch's autocast.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace kiln {

// While it lives, convolutions and linear layers on `device` compute in `type`, and cast their
// weights once. kFloat: they compute in their inputs' type, and nothing is touched. May be nested.
class Autocast {
 public:
  Autocast(c10::DeviceType device, c10::ScalarType type);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  // What this thread computes in now, in the terms of the constructor.
  static c10::ScalarType type_on(c10::DeviceType device);

 private:
  c10::DeviceType device_;
  bool is_on_;
  bool was_enabled_ = false;
  c10::ScalarType type_before_ = c10::kFloat;
};

}  // namespace kiln
