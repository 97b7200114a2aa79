// TensorBoard's event file: the metrics as scalars, the confusion matrix and judged images as
// pictures, the options as hyperparameters.
#pragma once

#include <filesystem>
#include <memory>

#include "report/run_sink.h"

namespace kiln {

// Begins a new event file in `folder`, which it makes, in place of those that kiln left there.
// Throws std::exception.
std::unique_ptr<RunSink> make_tensorboard(const std::filesystem::path& folder);

}  // namespace kiln
