// What `kiln inspect` reports about a dataset.
#pragma once

#include "cli/run_config.h"
#include "tools/inspect/inspect_table.h"

namespace kiln {

// Adds its fields to the report, in order. Returns the number of images that --check found to be
// bad plus the number of pictures that also occur in --valid-data-path. Throws Error
// kInvalidDataset.
int inspect_images(const InspectConfig& config, InspectReport& report);

}  // namespace kiln
