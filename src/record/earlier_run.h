// The files of an earlier run in a log folder. They stay until a new run has finished an epoch, and
// are then kept in another folder, LOGS.before, which the records of runs are read from likewise.
//
// Most files of the new run appear only then. Those that it begins at its start take the place of
// the earlier ones, which wait beside them: 70_driver_log_0.before.txt.
#pragma once

#include <filesystem>
#include <string_view>

namespace kiln {

// Call before files in the log folder whose names begin with `prefix` are begun anew: those of a
// run that has finished an epoch wait from now on. What cannot be renamed is left.
void set_aside(const std::filesystem::path& logs, std::string_view prefix);

// Call when an epoch of the run that began at `started` has ended, before its record takes the
// place of an earlier one. If that is of another run, its files move into `before`, where they
// replace those of a run before it; the record moves last, so that a move that was interrupted goes
// on. Removes files that wait for nothing: if `before` is empty, or the run has been resumed.
// Throws std::filesystem::filesystem_error.
void keep_earlier_run(const std::filesystem::path& logs, double started,
                      const std::filesystem::path& before);

}  // namespace kiln
