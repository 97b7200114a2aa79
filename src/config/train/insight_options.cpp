// What `kiln train` tells of its speed and its cost.
#include "config/binder.h"
#include "config/option_rows.h"

namespace kiln {

std::vector<TrainOption> insight_options() {
  return {
      {Effect::kFree,
       optional_path("trace", "FILE", "", kReporting,
                     "Write a timeline of steps 20 to 40 of this process, for chrome://tracing or "
                     "ui.perfetto.dev: steps and their parts, the device, sums over ranks, and the "
                     "threads that load images. Rank 0 writes FILE; each other one a file of its "
                     "own beside it, such as trace-rank1.json.")},
      {Effect::kFree,
       number("price-per-hour", "", kMillion, kReporting,
              "What an hour of all machines of the run costs, in any currency: the forecast, the "
              "result and the report then have costs.")},
  };
}

InsightConfig bind_insight(Binder& binder) {
  return {.trace_path = binder.path("trace"), .price_per_hour = binder.number("price-per-hour")};
}

}  // namespace kiln
