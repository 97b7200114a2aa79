// How many threads compute on the CPU, and how they wait for each other.
//
// OpenMP's threads wait for each other many times in a step, and spin for milliseconds meanwhile:
// the fastest way where each has a processor of its own. Where other programs use the processors,
// the thread that is waited for often does not run, and spinning uses the time that it needs.
// libgomp spins 100 times instead of 300,000 while a process has more OpenMP threads than there are
// processors (GOMP_SPINCOUNT in its manual). So while this process is kept waiting for processors,
// it has a sleeping team (process/sleeping_team.h), whose threads count.
#pragma once

namespace kiln {

// Called once, by the thread that starts the computing, before its first tensor operation. The
// variables GOMP_SPINCOUNT and OMP_WAIT_POLICY, which say how threads wait, are obeyed as they are.
void use_compute_threads(int count);

}  // namespace kiln
