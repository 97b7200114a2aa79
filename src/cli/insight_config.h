// What a run reports about its speed and cost, besides its records.
#pragma once

#include <string>

namespace kiln {

struct InsightConfig {
  std::string trace_path;     // output file; empty: no timeline of steps
  double price_per_hour = 0;  // all machines of the run together, in any currency; 0: unknown
};

}  // namespace kiln
