// For operations_parity.py: `operations_tool HEIGHT WIDTH CHAIN …` reads RGB pixels from standard
// input and writes them once for each chain, as it leaves them by the key of zeros: a line "HEIGHT
// WIDTH" and the pixels, or "FAULT" and a line that says why not.
#include <cstdlib>
#include <iostream>
#include <string>

#include "data/transform/operations.h"

namespace {

void write(const kiln::Image& original, const std::string& json) {
  kiln::Problems problems;
  const auto chain = kiln::TransformChain::parse(json, "_transforms.json", problems);
  problems.throw_if_any();
  kiln::Image image = original;
  kiln::WorkImage memory;
  chain.apply(image, {}, memory);
  std::cout << image.size.height << ' ' << image.size.width << '\n';
  std::cout.write(reinterpret_cast<const char*>(image.pixels.data()),
                  static_cast<std::streamsize>(image.pixels.size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  kiln::Image original{{std::atoi(argv[1]), std::atoi(argv[2])}, {}};
  original.pixels.resize(3 * static_cast<std::size_t>(original.size.height) *
                         static_cast<std::size_t>(original.size.width));
  std::cin.read(reinterpret_cast<char*>(original.pixels.data()),
                static_cast<std::streamsize>(original.pixels.size()));
  for (int i = 3; i < argc; ++i) {
    try {
      write(original, argv[i]);
    } catch (const std::exception& fault) {
      std::cout << "FAULT " << fault.what() << '\n';
    }
  }
  return 0;
}
