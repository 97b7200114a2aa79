// What `kiln inspect` says of a dataset.
#pragma once

#include "commands/inspect/inspect_table.h"
#include "config/run_config.h"

namespace kiln {

// Adds its fields to the report, in order; returns how many images --check found to be bad, and how
// many pictures are in --valid-data-path too. Throws Error kInvalidDataset.
int inspect_images(const InspectConfig& config, InspectReport& report);

}  // namespace kiln
