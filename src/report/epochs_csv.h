// `epochs.csv`: a row an epoch, a column a metric (metrics.h).
#pragma once

#include <filesystem>
#include <memory>

#include "report/run_sink.h"

namespace kiln {

inline constexpr const char* kEpochsFileName = "epochs.csv";

// Begins the file anew; every row is written through. Throws std::runtime_error.
std::unique_ptr<RunSink> make_epochs_csv(const std::filesystem::path& path);

}  // namespace kiln
