// Damaged copies of a valid file, for readers that may refuse or read them but must never crash.
// tests/fuzz/ looks for longer.
#pragma once

#include <exception>
#include <random>
#include <string>

namespace kiln::test {

inline unsigned long num_mutations() {
  return 3000;
}

// Truncates one copy in four, then overwrites one to four bytes.
inline std::string mutate(std::string bytes, std::mt19937& draw) {
  const auto below = [&draw](std::size_t limit) { return draw() % limit; };
  if (below(4) == 0) bytes.resize(below(bytes.size()) + 1);
  for (std::size_t flips = below(4) + 1; flips > 0; --flips) {
    bytes[below(bytes.size())] = static_cast<char>(draw());
  }
  return bytes;
}

// The number of mutations for which `read` throws one of the `Faults`; other exceptions are passed
// on.
template <typename... Faults, typename Read>
unsigned long count_refused(const std::string& valid, const Read& read,
                            unsigned long rounds = num_mutations()) {
  std::mt19937 draw(1);
  unsigned long refused = 0;
  for (unsigned long round = 0; round < rounds; ++round) {
    const std::string bytes = mutate(valid, draw);
    try {
      read(bytes);
    } catch (const std::exception& fault) {
      if (!(... || (dynamic_cast<const Faults*>(&fault) != nullptr))) throw;
      ++refused;
    }
  }
  return refused;
}

}  // namespace kiln::test
