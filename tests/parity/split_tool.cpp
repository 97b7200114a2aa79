// split_tool: reads a split a line from standard input, the fraction of the first part and then the
// number of images of each class; prints the numbers of images of each class in the first part, or
// "random". The classes' names are in the order of their numbers.
#include <iostream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "data/split/split.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    double fraction = 0;
    words >> fraction;
    std::vector<kiln::ClassCounts> classes;
    long long n = 0;
    for (long long count = 0; words >> count; n += count)
      classes.push_back({std::string(1, static_cast<char>('A' + classes.size())), count});
    const auto counts =
        kiln::share_out(classes, kiln::part_sizes({fraction, 1 - fraction}, n)).wanted;
    if (counts.empty()) std::cout << "random";
    for (std::size_t c = 0; !counts.empty() && c < classes.size(); ++c)
      std::cout << (c == 0 ? "" : " ") << counts[0][c];
    std::cout << '\n';
  }
  return 0;
}
