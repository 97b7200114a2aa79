// SHA-256 (FIPS 180-4), by which publishers of weights name their files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kiln {

// 64 hexadecimal digits in lowercase.
std::string sha256_of(std::string_view bytes);

// Of a regular file, read from the disk piece by piece. Throws std::system_error, which names the
// path, where it cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace kiln
