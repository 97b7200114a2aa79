// Which cores a rank uses, and how its threads wait for each other.
#pragma once

#include <vector>

#include "parallel/ranks/world.h"

namespace kiln {

// CPU binding: each rank of a host gets cores of its own, so that ranks do not compete for them,
// and with that nearby memory, since a page is placed on the node that first writes it.

// A logical processor that a process may use: its number in the system, its core and its NUMA node.
// Processors with the same core are its hardware threads.
struct Processor {
  int number = 0, core = 0, node = 0;
};

// Those that this process may use now.
std::vector<Processor> own_processors();

// Binds the threads of this process, running ones too, to processors by their numbers. Returns
// false if the system forbids it.
bool bind_all_threads(const std::vector<int>& processors);

// Divides the processors into `count` equal parts and returns part `index`. Assigns whole cores,
// node by node, so that a part stays on one NUMA node where possible. Empty if there are fewer
// cores than parts.
std::vector<int> processors_of_part(std::vector<Processor> all, int index, int count);

// The part of rank `index` of those that share the processors. `gpu_nodes` has the NUMA node of
// each rank's GPU, -1 if unknown: the ranks get their parts in the order of these nodes, so a part
// is on its GPU's node where the GPUs are spread over the nodes, and no core is left out.
std::vector<int> processors_of_rank(std::vector<Processor> all, const std::vector<int>& gpu_nodes,
                                    int index);

// Binds all threads of this process to its part of the processors that the ranks of its host share.
// `gpu_node`: the NUMA node of its GPU; -1: unknown, or it has none. Does nothing for ranks that
// already have their own processors, or on a host that has fewer cores than ranks, limits CPU time
// by a quota, or forbids binding. Returns the number of processors that this rank was bound to; 0
// if it was not bound. A collective.
int bind_to_own_cores(World& world, int gpu_node);

// The number of processors that this rank may use, divided by the number of ranks on its host that
// share them; at least 1. A collective.
int processors_of_this_rank(World& world);

// Sets how many threads compute on the CPU, and how they wait for each other (contention.h). Call
// once, before the first tensor operation, on the thread that runs the computation. If
// GOMP_SPINCOUNT or OMP_WAIT_POLICY, which set how threads wait, is in the environment, it is left
// in effect.
void use_compute_threads(int count);

}  // namespace kiln
