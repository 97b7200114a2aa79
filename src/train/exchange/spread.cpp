#include "train/exchange/spread.h"

#include <numeric>

namespace kiln {

std::vector<std::vector<std::size_t>> spread_evenly(const std::vector<std::size_t>& bytes,
                                                    int num_servers) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t one, std::size_t other) { return bytes[one] > bytes[other]; });
  std::vector<std::vector<std::size_t>> shares(static_cast<std::size_t>(num_servers));
  std::vector<std::size_t> held(shares.size());
  for (const std::size_t tensor : order) {
    const auto lightest = std::min_element(held.begin(), held.end());
    *lightest += bytes[tensor];
    shares[static_cast<std::size_t>(lightest - held.begin())].push_back(tensor);
  }
  for (std::vector<std::size_t>& share : shares) std::sort(share.begin(), share.end());
  return shares;
}

}  // namespace kiln
