// The processors of a rank. Ranks of one host keep to cores of their own, so that they do not take
// each other's, and to the memory nearby: pages lie where they are first written.
#pragma once

#include <vector>

#include "parallel/ranks/world.h"

namespace kiln {

// A processor that a process may use, by the system's number, and where it is. Processors of one
// core are its hardware threads.
struct Processor {
  int number = 0, core = 0, node = 0;
};

// The processors of part `index` of `count` equal parts: whole cores, node by node, so that a part
// lies on one memory node wherever that is possible. Empty if there are fewer cores than parts.
std::vector<int> processors_of_part(std::vector<Processor> all, int index, int count);

// Binds all threads of this process to its part of the processors that the ranks of its host share.
// Ranks that have processors of their own already stay there, as do those of a host with fewer
// cores than ranks, with a quota of processor time, or that forbids it. Returns the number of
// processors that this rank was bound to; 0: it was not. A collective.
int bind_to_own_cores(World& world);

// The processors that this rank may use, divided by the number of ranks of its host that share
// them; at least 1. A collective.
int processors_of_this_rank(World& world);

// Throws Error kUserError where the system does not allow this process to choose its processors.
void require_binding();

}  // namespace kiln
