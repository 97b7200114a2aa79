// Bytes as text (RFC 4648, section 4: with padding, without line breaks).
#pragma once

#include <string>
#include <string_view>

namespace kiln {

std::string base64(std::string_view bytes);

// Throws std::invalid_argument for what base64() cannot have made.
std::string from_base64(std::string_view text);

}  // namespace kiln
