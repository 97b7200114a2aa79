// Sets how many threads compute on the CPU, and how they wait for each other.
//
// OpenMP threads wait for each other many times per step, spinning for milliseconds. That is
// fastest if each thread has its own processor. If other programs use the processors too, the
// thread being waited for is often not running, and spinning takes the CPU time that it needs.
// libgomp spins only 100 times instead of 300,000 while a process has more OpenMP threads than
// there are processors (GOMP_SPINCOUNT in its manual). So while this process has to wait for
// processors, it keeps a team of sleeping threads (parallel/processors/sleeping_team.h) that raises
// the thread count.
#pragma once

namespace kiln {

// Call once, before the first tensor operation, on the thread that runs the computation. If
// GOMP_SPINCOUNT or OMP_WAIT_POLICY, which set how threads wait, is in the environment, it is left
// in effect.
void use_compute_threads(int count);

}  // namespace kiln
