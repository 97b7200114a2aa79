// SHA-256 (FIPS 180-4), which publishers of weights use to identify their files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kiln {

// As 64 lowercase hexadecimal digits.
std::string sha256_of(std::string_view bytes);

// The hash of a regular file, which is read piece by piece. Throws std::system_error naming the
// path if it cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace kiln
