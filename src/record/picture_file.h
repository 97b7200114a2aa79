// The pictures of a run's best epoch, beside its record: one line of JSON, and then the JPEG files
// that it gives the sizes of, one after another.
#pragma once

#include <filesystem>
#include <string>

#include "record/run_record.h"

namespace kiln {

inline constexpr const char* kPicturesName = "pictures.bin";

// The file, for the run that began at `started`. Replaced whole at each better epoch.
std::string picture_file(double started, const ValidationDetails& details);

// Reads the pictures of the run's details. Without the file, or if it is another run's or epoch's,
// there are none. Returns why it cannot be read, as a sentence; empty: it can.
std::string read_pictures(const std::filesystem::path& path, RunRecord* run);

}  // namespace kiln
