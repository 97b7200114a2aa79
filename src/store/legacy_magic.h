// Tells torch.save's older format from other bytes.
#pragma once

#include <string_view>

namespace kiln {

bool begins_like_torch_legacy(std::string_view bytes);

}  // namespace kiln
