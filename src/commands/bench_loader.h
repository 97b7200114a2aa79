// `kiln bench loader`: how many images a second come from files to normalised float batches.
#pragma once

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// Passes over the images of a folder or archive as over epochs of training, a first one not
// counted. Prints one JSON object. Images that cannot be decoded are counted.
int run(const BenchLoaderConfig& config, Process& process);

}  // namespace kiln
