// What this machine gives the process.
#pragma once

#include <string>

namespace kiln {

// The name that it goes by in its network.
std::string host_name();

// Standard input, output and error that were closed lead to nowhere from now on, so that no file
// that is opened later is taken for one of them. Before anything opens files.
void open_standard_descriptors();

// CPUs that this process may use: the affinity mask, cut by the control group's quota. At least 1.
int usable_cpus();

// The largest resident memory so far, and that of now, in bytes.
long long peak_memory_bytes();
long long resident_memory_bytes();

// From now on memory that is freed is used again and not given back to the system, which would
// cost a page fault a page. malloc_trim() gives it back. Threads that mostly wait share it: so many
// heaps as processors, and one.
void keep_freed_memory();

// Memory that may still be taken, in bytes: what the system calls available, within the control
// group's limit.
long long available_memory_bytes();

// Seconds since 1970, UTC.
double unix_seconds();

// Seconds since the kernel started this process: loading libraries counts.
double seconds_since_process_start();

}  // namespace kiln
