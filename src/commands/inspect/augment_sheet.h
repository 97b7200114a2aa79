// Some images of a dataset as training would show them to a model: `kiln inspect --augment`.
#pragma once

#include "base/log.h"
#include "config/run_config.h"

namespace kiln {

// Writes the page that `config` asks for, and says so; returns the exit status. Twelve images,
// evenly spaced over the list, six times each: of the size that training would choose for these
// images alone, or `config.image_size`. Images that cannot be decoded give way to the next ones.
// Throws Error kInvalidDataset where none can be.
int write_augment_sheet(const InspectConfig& config, Log& log);

}  // namespace kiln
