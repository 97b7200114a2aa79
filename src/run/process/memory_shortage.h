// The end of a process that has no memory left for a report. From the loader's first call on, also
// while libraries initialize themselves, a std::bad_alloc that nothing catches ends this way.
#pragma once

namespace kiln {

// Writes a sentence to standard error and exits with kModuleOutOfMemory. Allocates nothing.
[[noreturn]] void end_without_memory();

}  // namespace kiln
