// What started this process, as far as the environment tells.
#pragma once

#include <string>

namespace kiln {

struct Launcher {
  bool mpi = false;         // Open MPI or PMIx variables are there: MPI can be started
  int expected_size = 0;    // that the launcher or the platform tells; 0: nobody says
  int local_size = 0;       // ranks on this host; 0: nobody says
  std::string expectation;  // why, as the end of a sentence, with the remedy
};

// Throws Error kUserError for a launcher of another MPI (PMI variables without PMIx), under which
// every process would take itself for the only one.
Launcher find_launcher();

}  // namespace kiln
