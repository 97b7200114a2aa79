// `kiln inspect --augment`: shows some images of a dataset as training would present them to a
// model.
#pragma once

#include "base/log.h"
#include "cli/run_config.h"

namespace kiln {

// Writes the page that `config` asks for, logs where it is, and returns the exit status. The page
// has twelve images, evenly spaced over the list, six times each. Their size is
// `config.image_size`, or the one that training would choose for these twelve images alone. An
// image that cannot be decoded is replaced by the next one. Throws Error kInvalidDataset if none
// can be decoded.
int write_augment_sheet(const InspectConfig& config, Log& log);

}  // namespace kiln
