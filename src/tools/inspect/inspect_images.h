// What `kiln inspect` reports about a dataset.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/run_config.h"

namespace kiln {

// The output of `kiln inspect` in order, printed as a table or as JSON.
using InspectReport = nlohmann::ordered_json;

// Adds its fields to the report, in order. Returns the number of images that --check found to be
// bad plus the number of pictures that also occur in --valid-data-path. Throws Error
// kInvalidDataset.
int inspect_images(const InspectConfig& config, InspectReport& report);

}  // namespace kiln
