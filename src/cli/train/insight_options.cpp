// The options of `kiln train` that report its speed and its cost.
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {

std::vector<TrainOption> insight_options() {
  return {
      {Effect::kFree,
       optional_path(
           "trace", "FILE", "", kReporting,
           "Write a timeline of steps 20 to 40 for chrome://tracing or ui.perfetto.dev: steps and "
           "their phases, the device, all-reduces, and the loader threads. Rank 0 writes FILE; the "
           "others write their own files next to it, such as trace-rank1.json.")},
      {Effect::kFree, number("price-per-hour", "", kMillion, kReporting,
                             "Cost per hour of all machines of the run, in any currency: the "
                             "forecast, the result and the report then include costs.")},
  };
}

InsightConfig bind_insight(Binder& binder) {
  return {.trace_path = binder.path("trace"), .price_per_hour = binder.number("price-per-hour")};
}

}  // namespace kiln
