// Files from strangers, and the one rule for everything that reads them:
//
//   Nothing is allocated or parsed that the file's own size cannot justify, within stated limits.
//
// So a reader looks at the first bytes before it reads the rest; it compares each size and count
// that a file declares with the bytes that are there before it allocates memory for them; and its
// time grows in proportion to these bytes. Where few bytes may stand for much (pixels, references,
// JSON), a constant beside the reader limits how much. tests/peak_memory.h measures readers in
// processes of their own.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace kiln {

// At most the first `count` bytes of a regular file. Throws std::system_error as read_file() does.
std::string first_bytes(const std::filesystem::path& path, std::size_t count);

}  // namespace kiln
