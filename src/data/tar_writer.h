// Members of a tar as bytes: POSIX.1-2017, pax, "ustar Interchange Format". No time, owner or host
// is in them, so the same images make the same bytes.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

// Header, data and padding. `name` has at most 100 bytes, `bytes` fewer than 8 GiB; InternalError
// otherwise.
std::string tar_member(std::string_view name, std::string_view bytes);

// The end mark.
std::string tar_end();

}  // namespace kiln
