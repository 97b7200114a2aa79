// Compute threads on processors that other programs use, too.
//
// OpenMP threads wait for each other many times per step, spinning for milliseconds. That is
// fastest if each thread has its own processor. If other programs use the processors too, the
// thread being waited for is often not running, and spinning takes the CPU time that it needs. So
// while a process has to wait for processors, its compute threads
// 1. soon sleep: libgomp spins only 100 times instead of 300,000 while a process has more OpenMP
//    threads than there are processors (GOMP_SPINCOUNT in its manual), which a SleepingTeam brings
//    about;
// 2. and if no processor is idle, since other programs use them, gather on half of the cores. There
//    they wait for each other alone; the system moves the other programs to the cores that were
//    left, so that each side has its fair share. Spread over all cores, each thread has half of a
//    core, but at different times. If the others stay, being bound, the threads spread again.
#pragma once

namespace kiln {

// Watches the calling thread, which leads `num_threads` compute threads, twice a second from a
// thread of its own until the process ends; call it once. `num_processors`: that libgomp counts.
// What the system does not tell or allow later is left out. Throws std::system_error if no thread
// can be created.
void watch_contention(int num_processors, int num_threads);

// From now on the compute threads of this process are not gathered: nobody wants that, or their
// kernels have barriers that spin, which on one core would take a time slice each.
void keep_threads_apart();

}  // namespace kiln
