// Shared beginning of main() in tests started by mpirun.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>

#include "base/log.h"
#include "parallel/ranks/world.h"

namespace kiln {

// Joins the ranks with a deadline of `deadline_s` per collective and a warning at half of it.
// Returns false, with a message on standard error, if not started by mpirun. `log` must outlive
// `world`.
inline bool join_ranks(int argc, char** argv, double deadline_s, Log& log, World& world) {
  testing::InitGoogleTest(&argc, argv);
  world.init({.deadline_s = deadline_s, .stall_warning_s = deadline_s / 2}, 0, log);
  if (world.mpi() != nullptr) return true;
  std::fprintf(stderr, "start this by mpirun\n");
  return false;
}

}  // namespace kiln
