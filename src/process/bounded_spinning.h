// Bounds how long OpenMP's threads spin while they wait for each other. Where other programs use
// the processors too, or a container has a quota, the thread that is waited for often does not run,
// and spinning uses the processor time that it needs.
#pragma once

namespace kiln {

// Turns of the loop; libgomp's own default is 300,000.
inline constexpr char kBoundedSpinning[] = "GOMP_SPINCOUNT=30000";

// Whether a process with these arguments and variables, each ended by nullptr, is to be started
// again with kBoundedSpinning: if it trains or scores, and the user has not set how threads wait.
bool wants_bounded_spinning(const char* const* arguments, const char* const* variables);

// Starts this program again, as the same process, with the same arguments and one variable more,
// where that is wanted. libgomp reads the variable when it is loaded, so this belongs to
// .preinit_array: it allocates nothing and needs no library's constructor. Returns where nothing is
// to be done or the system does not allow it, which only costs speed.
void restart_with_bounded_spinning(int num_arguments, char** arguments, char** variables);

}  // namespace kiln
