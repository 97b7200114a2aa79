#include "model/operators/autocast.h"

#include <ATen/autocast_mode.h>

namespace kiln {

KeptCasts::KeptCasts() {
  at::autocast::increment_nesting();
}

// The casts must be dropped before an optimizer changes the originals.
KeptCasts::~KeptCasts() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

Autocast::Autocast(c10::DeviceType device, c10::ScalarType type)
    : device_(device), is_on_(type != c10::kFloat) {
  if (!is_on_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device);
  type_before_ = at::autocast::get_autocast_dtype(device);
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::set_autocast_dtype(device, type);
}

Autocast::~Autocast() {
  if (!is_on_) return;
  at::autocast::set_autocast_dtype(device_, type_before_);
  at::autocast::set_autocast_enabled(device_, was_enabled_);
}

c10::ScalarType Autocast::type_on(c10::DeviceType device, c10::ScalarType otherwise) {
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : otherwise;
}

}  // namespace kiln
