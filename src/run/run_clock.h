// How long a run has taken, in all of its processes.
#pragma once

#include "base/system.h"

namespace kiln {

struct RunClock {
  double seconds_before = 0;  // in earlier processes, with the work that was lost; on rank 0

  double seconds_used() const { return seconds_before + seconds_since_process_start(); }
};

}  // namespace kiln
