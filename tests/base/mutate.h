// Damaged copies of a valid file, for readers that may refuse or read them but must never crash.
//
// KILN_MUTATIONS is how many a test tries (default 3000), KILN_MUTATION_SEED the draw (default 1).
#pragma once

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>

namespace kiln::test {

inline unsigned long number_from_environment(const char* name, unsigned long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoul(text, nullptr, 10);
}

inline unsigned long num_mutations() {
  return std::max(1UL, number_from_environment("KILN_MUTATIONS", 3000));
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
  std::mt19937 draw(number_from_environment("KILN_MUTATION_SEED", 1));
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
