// Memory of tensors on the CPU. A training step asks for the same sizes again and again, but glibc
// maps every tensor above 32 MB anew, and the system clears its pages each time. Here freed memory
// is kept, and lies on huge pages.
#pragma once

namespace kiln {

// From now on tensors of at least 256 KiB on the CPU get memory that is kept for later tensors when
// they are freed: as much as tensors needed at a time, and a little more. A tensor for which the
// system has no memory throws Error kModuleOutOfMemory, before the system would kill the process.
// Does nothing where the process may not have as many addresses as the machine has memory
// (ulimit -v). Tensors may be used in any thread.
void keep_tensor_memory();

}  // namespace kiln
