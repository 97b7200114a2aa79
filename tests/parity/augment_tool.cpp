// For augment_parity.py: `augment_tool HEIGHT WIDTH OPERATION MAGNITUDE …` reads RGB pixels from
// standard input and writes them once for each pair, as that operation leaves them.
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "data/transform/augment.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const kiln::ImageSize size{std::atoi(argv[1]), std::atoi(argv[2])};
  std::vector<std::uint8_t> original(3 * static_cast<std::size_t>(size.height * size.width)), copy;
  const auto bytes = static_cast<std::streamsize>(original.size());
  std::cin.read(reinterpret_cast<char*>(original.data()), bytes);
  for (int i = 3; i + 1 < argc; i += 2) {
    std::vector<std::uint8_t> pixels = original;
    const auto operation = static_cast<kiln::ImageOperation>(std::atoi(argv[i]));
    kiln::apply_operation({operation, std::atof(argv[i + 1])}, pixels.data(), size, copy);
    std::cout.write(reinterpret_cast<const char*>(pixels.data()), bytes);
  }
  return 0;
}
