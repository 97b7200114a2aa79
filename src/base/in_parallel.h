// Independent pieces of work, spread over a few threads for as long as one call lasts.
#pragma once

#include <cstddef>
#include <functional>

namespace kiln {

// Runs `work(0)` to `work(count - 1)` on at most `num_threads` threads, the caller's among them. If
// any throws, no new ones begin, and the exception of the lowest number is rethrown.
void in_parallel(std::size_t count, int num_threads, const std::function<void(std::size_t)>& work);

}  // namespace kiln
