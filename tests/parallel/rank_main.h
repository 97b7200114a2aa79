// What the main() of every test that mpirun starts begins with.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>

#include "base/log.h"
#include "parallel/ranks/world.h"

namespace kiln {

// Joins the ranks, with `deadline_s` for a collective and half of it before a warning; false, with
// a word on standard error, where mpirun did not start this. `log` must outlive `world`.
inline bool join_ranks(int argc, char** argv, double deadline_s, Log& log, World& world) {
  testing::InitGoogleTest(&argc, argv);
  world.join({.deadline_s = deadline_s, .stall_warning_s = deadline_s / 2}, 0, log);
  if (world.mpi() != nullptr) return true;
  std::fprintf(stderr, "start this by mpirun\n");
  return false;
}

}  // namespace kiln
